// The instructor's page: it shows nothing without the key, which stays in this tab.
import { OUTCOMES, counted, element, fill, row, showTrouble } from "./room.js";

const EVERY_MS = 3000;
const KEY = "the room's key";
let exported = {};
let controlRefusal = "";

if (location.hash.length > 1) {
  sessionStorage.setItem(KEY, decodeURIComponent(location.hash.slice(1)));
  history.replaceState(null, "", location.pathname);
}

function ask(path, options = {}) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` };
  return fetch(`api/${path}`, { ...options, headers, cache: "no-store" });
}

async function look() {
  try {
    const [answer, board] = await Promise.all([ask("results"), fetch("api/board").then((got) => got.json())]);
    const known = answer.status === 200;
    if (known) {
      exported = await answer.json();
      draw(exported, board);
    }
    document.getElementById("ask").hidden = known;
    document.getElementById("shown").hidden = !known;
    showTrouble(known ? controlRefusal : !sessionStorage.getItem(KEY) ? "" : (await answer.json()).error);
  } catch {
    showTrouble("The room does not answer; this page goes on asking.");
  }
}

function draw(found, board) {
  for (const name of ["hide_names", "joining"]) document.getElementById(name).checked = board[name];
  fill("refused", ...board.parts.flatMap((part) => refused(part, found.results)));
  const table = element("table", "", "figures");
  table.append(row("th", "Name", "", "State", "Checks", "Machine"), ...found.people.map((person) => personRow(person, found.results)));
  fill("participants", table);
}

function refused(part, results) {
  const checks = results.filter((each) => each.part === part.name && each.outcome);
  const others = checks.filter((each) => each.outcome !== "done");
  if (!checks.length) return [];
  const groups = Map.groupBy(others, (each) => `${OUTCOMES[each.outcome][1]}: ${each.reason}`);
  const lines = [...groups].sort((a, b) => b[1].length - a[1].length).map(([reason, each]) => {
    const names = [...new Set(each.map((one) => one.name))].flatMap((name) => [", ", element("bdi", name)]).slice(1);
    return element("li", "", "", element("b", `${each.length}×`), ` ${reason} `, element("span", "", "quiet", ...names));
  });
  const progress = `${part.done} done, ${part.stuck} without progress, ${counted(part.hints, "hint")} read`;
  const counts = `${counted(checks.length, "check")}, ${progress}`;
  return [element("h3", `${part.name}: ${part.title}`), element("p", counts, "quiet"), element("ul", "", "", ...lines)];
}

function personRow(person, results) {
  const out = person.state === "removed";
  const button = element("button", out ? "Readmit" : "Remove");
  button.addEventListener("click", () => control({ [out ? "readmit" : "remove"]: person.id }));
  const checks = results.filter((each) => each.participant === person.id && each.outcome).length;
  const name = element("td", "", "name", element("bdi", person.name));
  return row("td", name, element("td", "", "", button), person.state, checks, person.machine);
}

async function control(change) {
  const answer = await ask("control", { method: "POST", body: JSON.stringify(change) });
  controlRefusal = answer.ok ? "" : (await answer.json()).error;
  await look();
}

function save(name, content) {
  const link = element("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

for (const name of ["hide_names", "joining"]) {
  document.getElementById(name).addEventListener("change", (event) => control({ [name]: event.target.checked }));
}
document.getElementById("csv").addEventListener("click", async () => save("room.csv", await (await ask("results.csv")).blob()));
document.getElementById("json").addEventListener("click", () =>
  save("room.json", new Blob([JSON.stringify(exported, null, 2)], { type: "application/json" })));
document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, document.getElementById("key").value.trim());
  look();
});

look();
setInterval(look, EVERY_MS);
