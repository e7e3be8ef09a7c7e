// Asks for the board every second, and draws it anew when it has changed.
import { OUTCOMES, counted, element, fill, percent, row, shortPart, showTrouble } from "./room.js";

const EVERY_MS = 1000;
const MOST_LINES = 6;
let tag = "";
let clockAhead_s = 0;
let answeredAt = Date.now();

async function look() {
  try {
    const answer = await fetch("api/board", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
    if (answer.status === 200) {
      tag = answer.headers.get("ETag");
      const board = await answer.json();
      clockAhead_s = board.now - Date.now() / 1000;
      draw(board);
    } else if (answer.status !== 304) {
      throw new Error(`it answers ${answer.status}`);
    }
    answeredAt = Date.now();
    showTrouble("");
  } catch {
    const since = new Date(answeredAt).toLocaleTimeString();
    showTrouble(`The room has not answered since ${since}. What is shown is from then; this page goes on asking.`);
  }
  setTimeout(look, EVERY_MS);
}

function draw(board) {
  const here = board.people.filter((person) => !person.left);
  const done = board.parts.reduce((sum, part) => sum + part.done, 0);
  fill("counts", `${counted(here.length, "participant")} · ${counted(done, "part")} done`);
  const join = board.joining ? [["Join", `workshop join ${board.address} ${board.code} --name YOUR_NAME`]] : [];
  fill("commands", ...[...board.commands, ...join].map(([what, command]) =>
    element("p", "", "", element("span", what, "quiet"), element("code", command))));
  fill("people", people(board));
  fill("stuck", ...stuck(board.people));
  fill("refusals", ...refusals(board.refusals));
  fill("best", ...best(board.parts));
  fill("legend", ...Object.values(OUTCOMES).map(([sign, word]) => element("span", `${sign} ${word}`)),
    element("span", "in a frame: is at this part"), element("span", "85 %: of the solution's speedup on the same machine"));
}

function people(board) {
  const table = element("table", "", "figures");
  const head = row("th", "", ...board.parts.map((part) => element("th", shortPart(part.name))));
  const counts = row("td", "done", ...board.parts.map((part) => gauge(part, board.people.length)), "");
  head.append(element("th", "progress"));
  for (const [number, part] of board.parts.entries()) head.children[number + 1].title = part.title;
  const body = element("tbody", "", "", ...board.people.map((person) => personRow(person, board.parts)));
  table.append(element("thead", "", "", head, counts), body);
  if (!board.people.length) body.append(row("td", "Nobody has joined yet."));
  return element("div", "", "scrolled", table);
}

function gauge(part, all) {
  const filled = element("i");
  filled.style.width = `${100 * (all ? part.done / all : 0)}%`;
  return element("td", "", "gauge", element("b", String(part.done)), element("div", "", "", filled));
}

function personRow(person, parts) {
  const name = element("td", "", "name", element("bdi", person.name));
  const cells = parts.map((part) => cell(person, part.name));
  const minutes = Math.max(0, Math.floor((Date.now() / 1000 + clockAhead_s - person.progress_at) / 60));
  const since = person.left ? "left" : !person.at ? "finished" : minutes < 1 ? "now" : `${minutes} min`;
  const made = row("td", name, ...cells, element("td", since));
  made.className = person.left ? "left" : person.stuck ? "stuck" : "";
  return made;
}

function cell(person, part) {
  const known = person.parts[part];
  const outcome = known && (known.done ? "done" : known.outcome);
  const [sign, word] = OUTCOMES[outcome] ?? ["", ""];
  const share = known?.share ? ` ${percent(known.share)}` : "";
  const made = element("td", sign + share, outcome ? outcome.replaceAll(" ", "-") : "");
  if (person.at === part && !person.left) {
    made.classList.add("at");
    if (!sign) made.textContent = "·";
  }
  made.title = word;
  return made;
}

function stuck(everybody) {
  const found = everybody.filter((person) => person.stuck).sort((a, b) => a.progress_at - b.progress_at);
  return shortened(found, (person) => {
    const hints = person.hints ? `, ${person.hints} ${person.hints === 1 ? "hint" : "hints"} read` : "";
    return element("li", "", "", element("bdi", person.name), `: part ${shortPart(person.at)}${hints}`);
  }, "Nobody.");
}

function refusals(found) {
  return shortened(found, (each) =>
    element("li", "", "", element("b", `${each.count}×`), ` part ${shortPart(each.part)}, ${OUTCOMES[each.outcome][1]}`,
      each.reason ? element("span", each.reason, "quiet") : ""), "Nothing yet.");
}

function best(parts) {
  return shortened(parts.filter((part) => part.best.length), (part) => {
    const names = part.best.flatMap((each) => [", ", element("bdi", each.name), ` ${percent(each.share).replace(" ", "\u00a0")}`]);
    return element("li", `part ${shortPart(part.name)}: `, "", ...names.slice(1));
  }, "Nobody yet.");
}

function shortened(found, draw, otherwise) {
  const lines = found.slice(0, MOST_LINES).map(draw);
  if (found.length > MOST_LINES) lines.push(element("li", `and ${found.length - MOST_LINES} more`, "quiet"));
  return lines.length ? lines : [element("li", otherwise, "quiet")];
}

look();
