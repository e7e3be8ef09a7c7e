"use strict";

// The tree, in the order of a walk through it. `end` is the number of the first node behind a node's subtree.
const data = JSON.parse(document.getElementById("data").textContent);
const fields = data.compared ? 4 : 3;
const count = data.nodes.length / fields;
const depth = new Int32Array(count), label = new Int32Array(count), end = new Int32Array(count), parent = new Int32Array(count);
const after = new Float64Array(count), before = new Float64Array(count);
const lower = data.labels.map((text) => text.toLowerCase());

{
  const path = [];
  for (let node = 0; node < count; node++) {
    const at = node * fields;
    depth[node] = data.nodes[at];
    label[node] = data.nodes[at + 1];
    after[node] = data.nodes[at + 2];
    before[node] = data.compared ? data.nodes[at + 3] : 0;
    while (path.length > depth[node]) end[path.pop()] = node;
    parent[node] = path.length ? path[path.length - 1] : -1;
    path.push(node);
  }
  while (path.length) end[path.pop()] = count;
  data.nodes = null;
}

const ROW = 18;  // pixels; as in the style sheet
const THINNEST = 0.6;  // pixels; what is thinner is not drawn until it is zoomed into
const graph = document.getElementById("graph");
const search = document.getElementById("search");
const details = document.getElementById("details");
const matched = document.getElementById("matched");

// What is folded at first: all below the beginning of an import, and threads that do nothing but wait.
const isImport = new Uint8Array(data.labels.length), waits = new Uint8Array(data.labels.length);
for (const each of data.imports) isImport[each] = 1;
for (const each of data.waits) waits[each] = 1;
const unfolded = { after, before };
const shown = { after: after.slice(), before: before.slice() };
const hidden = new Uint8Array(count);  // by node: whether it is out of sight while folded
const folded = { waiting: 0, imports: 0, tower: 0 };
for (let node = 0; node < count; node++) {
  if (waits[label[node]]) {
    folded.waiting += after[node];
    for (let up = parent[node]; up >= 0; up = parent[up]) { shown.after[up] -= after[node]; shown.before[up] -= before[node]; }
    shown.after.fill(0, node, end[node]);
    shown.before.fill(0, node, end[node]);
    hidden.fill(1, node, end[node]);
    node = end[node] - 1;
  } else if (isImport[label[node]]) {
    folded.imports += after[node];
    hidden.fill(1, node + 1, end[node]);
    for (let inside = node; inside < end[node]; inside++) folded.tower = Math.max(folded.tower, depth[inside] - depth[node]);
    node = end[node] - 1;
  }
}
const fold = document.getElementById("fold");
let which = "after";  // of two recordings
let counts, width;  // of both recordings; what the widths show
let focus = 0;  // the node that is as wide as the page
let hits = null;  // by label: whether it is what was searched for
let drawn = new Map();  // element by node

const share = (part, whole) => (whole ? (100 * part / whole).toFixed(2) : "0.00") + " %";

function draw() {
  const pixels = graph.clientWidth;
  const fragment = document.createDocumentFragment();
  drawn = new Map();
  let deepest = 0;
  const place = (node, left, wide, above) => {
    const frame = document.createElement("div");
    const name = data.labels[label[node]];
    frame.className = "frame " + data.kinds[data.kindOf[label[node]]];
    if (above) frame.classList.add("above");
    if (wide < 24) frame.classList.add("thin");
    else frame.textContent = name;
    if (hits && hits[label[node]]) frame.classList.add("hit");
    if (data.compared) frame.style.background = changeColour(node);
    frame.style.left = left + "px";
    frame.style.top = depth[node] * ROW + "px";
    frame.style.width = wide + "px";
    frame.dataset.node = node;
    frame.tabIndex = node === focus ? 0 : -1;
    frame.setAttribute("role", "treeitem");
    frame.setAttribute("aria-level", depth[node] + 1);
    frame.setAttribute("aria-label", `${name}, ${width[node]} samples`);
    fragment.append(frame);
    drawn.set(node, frame);
    deepest = Math.max(deepest, depth[node]);
  };
  for (let node = parent[focus]; node >= 0; node = parent[node]) place(node, 0, pixels, true);
  // A stack of its own instead of recursion: Python's stacks are deeper than a browser's.
  const waiting = [[focus, 0]];
  const scale = pixels / (width[focus] || 1);
  while (waiting.length) {
    const [node, left] = waiting.pop();
    place(node, left, width[node] * scale, false);
    if (fold.checked && isImport[label[node]] && node !== focus) continue;
    let from = left;
    for (let child = node + 1; child < end[node]; child = end[child]) {
      const wide = width[child] * scale;
      if (wide >= THINNEST) waiting.push([child, from]);
      from += wide;
    }
  }
  graph.replaceChildren(fragment);
  graph.style.height = (deepest + 1) * ROW + "px";
}

// Red for what takes more samples than before, blue for less; full colour for a twentieth of all.
function changeColour(node) {
  const change = (counts.after[node] - counts.before[node]) / (Math.max(counts.after[0], counts.before[0]) / 20 || 1);
  if (!change) return "var(--same)";
  const strength = Math.min(1, 0.2 + 0.8 * Math.abs(change));
  return `rgba(var(--${change > 0 ? "more" : "less"}), ${strength.toFixed(2)})`;
}

function zoom(node) {
  focus = node;
  draw();
  describe(node);
}

function describe(node) {
  let self = width[node];
  for (let child = node + 1; child < end[node]; child = end[child]) self -= width[child];
  const name = document.createElement("b"), figures = document.createElement("span");
  name.textContent = data.labels[label[node]];
  let text = `${width[node]} samples, ${share(width[node], width[0])} of all`;
  if (focus) text += `, ${share(width[node], width[focus])} of what is zoomed into`;
  text += `; ${self} in itself`;
  if (data.compared) {
    const change = counts.after[node] - counts.before[node];
    text = `${counts.before[node]} samples before, ${counts.after[node]} after: ${change > 0 ? "+" : ""}${change}; ` + text;
  }
  figures.textContent = text;
  details.replaceChildren(name, figures);
}

function find() {
  const wanted = search.value.trim().toLowerCase();
  hits = wanted ? lower.map((text) => text.includes(wanted)) : null;
  graph.classList.toggle("searching", Boolean(hits));
  for (const [node, frame] of drawn) frame.classList.toggle("hit", Boolean(hits && hits[label[node]]));
  matched.textContent = "";
  if (!hits) return;
  let samples = 0, frames = 0;
  for (let node = 0; node < count; node++) {
    if (!hits[label[node]] || (fold.checked && hidden[node])) continue;
    frames++;
    samples += width[node];
    let inside = node + 1;  // a hit below a hit counts once
    for (; inside < end[node]; inside++) if (hits[label[inside]] && !(fold.checked && hidden[inside])) frames++;
    node = end[node] - 1;
  }
  matched.textContent = `${share(samples, width[0])} of all samples, in ${frames} place${frames === 1 ? "" : "s"}`;
}

function change() {
  counts = fold.checked ? shown : unfolded;
  width = counts[which];
  find();
  zoom(0);
}

function reset() {
  search.value = "";
  find();
  zoom(0);
}

function neighbour(node, key) {
  if (key === "ArrowUp") return parent[node];
  const inside = key === "ArrowDown", around = inside ? node : parent[node];
  if (around < 0) return -1;
  const seen = [];
  for (let child = around + 1; child < end[around]; child = end[child]) if (drawn.has(child)) seen.push(child);
  if (inside) return seen.length ? seen[0] : -1;
  return seen[seen.indexOf(node) + (key === "ArrowRight" ? 1 : -1)] ?? -1;
}

const nodeOf = (event) => {
  const frame = event.target.closest(".frame");
  return frame ? Number(frame.dataset.node) : -1;
};

graph.addEventListener("click", (event) => { const node = nodeOf(event); if (node >= 0) zoom(node); });
graph.addEventListener("mouseover", (event) => { const node = nodeOf(event); if (node >= 0) describe(node); });
graph.addEventListener("focusin", (event) => { const node = nodeOf(event); if (node >= 0) describe(node); });
search.addEventListener("input", find);
document.getElementById("reset").addEventListener("click", reset);
for (const choice of document.querySelectorAll("[name=widths]")) {
  choice.addEventListener("change", () => { which = choice.value; change(); });
}
fold.addEventListener("change", change);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return reset();
  if (event.ctrlKey || event.metaKey || event.altKey || event.target === search) return undefined;
  if (event.key === "/") { event.preventDefault(); search.focus(); return undefined; }
  const node = nodeOf(event);
  if (event.key === "Enter" && node >= 0) { zoom(node); drawn.get(node).focus(); }
  if (!event.key.startsWith("Arrow")) return undefined;
  const next = node < 0 ? focus : neighbour(node, event.key);
  if (!drawn.has(next)) return undefined;
  event.preventDefault();
  drawn.get(next).focus();
  return undefined;
});
let waiting = 0;
addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(draw); });

{
  const legend = document.getElementById("legend");
  const words = { user: "your code", library: "libraries", native: "native code", worker: "DataLoader workers", process: "processes" };
  const entries = data.compared
    ? [["rgba(var(--more), 1)", "more samples than before"], ["rgba(var(--less), 1)", "fewer"], ["var(--same)", "as many"]]
    : data.kinds.filter((_, kind) => data.kindOf.includes(kind)).map((name) => [`var(--${name})`, words[name]]);
  for (const [colour, text] of entries) {
    const entry = document.createElement("span"), box = document.createElement("i");
    box.style.background = colour;
    entry.append(box, text);
    legend.append(entry);
  }
  document.getElementById("widths").hidden = !data.compared;
  const says = [];
  if (folded.waiting) says.push(`threads that only wait (${share(folded.waiting, after[0])} of all samples)`);
  if (folded.imports) says.push(`imports (${share(folded.imports, after[0])}, up to ${folded.tower} frames high)`);
  document.getElementById("folded").textContent = says.join(" and ");
  document.getElementById("folding").hidden = !says.length;
}
change();
