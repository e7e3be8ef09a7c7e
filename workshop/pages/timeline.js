"use strict";

// Rows of lanes. Events of a row come in the order of their start; what contains others is in a lane above them.
const data = JSON.parse(document.getElementById("data").textContent);
const canvas = document.getElementById("timeline");
const details = document.getElementById("details");
const pen = canvas.getContext("2d");

const LANE = 16, GAP = 22, AXIS = 20;  // pixels: a lane, what stands above a row for its label, the axis
const HIGHEST = 16000;  // pixels: browsers draw nothing in a canvas that is much higher, as that of many ranks is
let whole = 1;
for (const row of data.rows) {
  row.lanes = 1;
  row.byLane = [];
  for (let at = 0; at < row.start.length; at++) {
    whole = Math.max(whole, row.start[at] + row.duration[at]);
    row.lanes = Math.max(row.lanes, row.lane[at] + 1);
    (row.byLane[row.lane[at]] ||= []).push(at);
  }
}
let begin = 0, end = whole;  // what is in view, in µs
let bottom = AXIS;
for (const row of data.rows) {
  row.top = bottom + GAP - 6;
  bottom = row.top + row.lanes * LANE;
}
canvas.style.height = `${bottom + 8}px`;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
let colours;

document.getElementById("keys").innerHTML = data.kinds.map((kind) => `<span><i style="background:var(--${kind})"></i>${kind}</span>`).join("")
  + (data.leftOut ? `<span>${data.leftOut} short events are left out</span>` : "");

const time = (us) => us >= 1e6 ? `${(us / 1e6).toPrecision(4)} s` : us >= 1e3 ? `${(us / 1e3).toPrecision(4)} ms` : `${us.toFixed(3)} µs`;
const x = (us) => (us - begin) / (end - begin) * canvas.clientWidth;

// The first event of a lane that may be in view: events of one lane do not overlap.
function first(row, lane) {
  let low = 0, high = lane.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.start[lane[middle]] + row.duration[lane[middle]] < begin) low = middle + 1; else high = middle;
  }
  return low;
}

function draw() {
  const wide = canvas.clientWidth, high = canvas.clientHeight;
  const ratio = Math.min(window.devicePixelRatio || 1, HIGHEST / high);
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round(high * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  colours = data.kinds.map(colour);
  pen.clearRect(0, 0, wide, high);
  axis(wide, high);
  for (const row of data.rows) {
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = colour("quiet");
    pen.fillText(row.label, 4, row.top - 4);
    pen.font = "10px ui-monospace, monospace";
    for (const lane of row.byLane) if (lane) drawLane(row, lane, wide);
  }
}

function drawLane(row, lane, wide) {
  let covered = -1;  // pixels up to here are painted: a million events are never more than the page is wide
  for (let at = first(row, lane); at < lane.length; at++) {
    const event = lane[at], left = x(row.start[event]);
    if (left > wide) break;
    const right = Math.max(x(row.start[event] + row.duration[event]), left + 1);
    if (right < covered + 0.7) continue;
    covered = right;
    const y = row.top + row.lane[event] * LANE, from = Math.max(left, 0), size = Math.min(right, wide) - from;
    pen.fillStyle = colours[row.kind[event]];
    pen.fillRect(from, y, Math.max(size - (size > 3 ? 1 : 0), 0.7), LANE - 2);
    if (size > 46) {
      pen.fillStyle = colour("ground");
      pen.fillText(row.names[row.name[event]].slice(0, Math.floor((size - 6) / 6.1)), from + 3, y + LANE - 6);
    }
  }
}

function axis(wide, high) {
  const rough = (end - begin) / Math.max(wide / 110, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  pen.font = "10px system-ui, sans-serif";
  for (let at = Math.ceil(begin / step) * step; at <= end; at += step) {
    pen.fillStyle = colour("line");
    pen.fillRect(x(at), 0, 1, high);
    pen.fillStyle = colour("quiet");
    pen.fillText(time(at), x(at) + 3, 11);
  }
  const steps = data.rows.filter((each) => each.label.endsWith(": steps"));
  steps.forEach((row, at) => {  // the steps of another rank, or another run, are not at the same time
    const below = at + 1 < steps.length ? steps[at + 1].top - GAP + 6 : high;
    pen.fillStyle = colour("step");
    for (const start of row.start) pen.fillRect(x(start), row.top - 4, 1, below - row.top + 4);
  });
}

function show(from, to) {
  const least = 0.05, span = Math.min(Math.max(to - from, least), whole);
  begin = Math.min(Math.max(from, 0), whole - span);
  end = begin + span;
  draw();
}

function zoom(factor, around = (begin + end) / 2) {
  show(around - (around - begin) * factor, around + (end - around) * factor);
}

function eventAt(px, py) {
  const at = begin + px / canvas.clientWidth * (end - begin), slack = (end - begin) / canvas.clientWidth;
  for (const row of data.rows) {
    const lane = Math.floor((py - row.top) / LANE);
    if (lane < 0 || lane >= row.lanes || !row.byLane[lane]) continue;
    for (const event of row.byLane[lane]) {
      if (row.start[event] > at + slack) break;
      if (row.start[event] + row.duration[event] >= at - slack) return [row, event];
    }
  }
  return null;
}

function describe(found) {
  details.textContent = "\u00a0";
  if (!found) return;
  const [row, event] = found, name = document.createElement("b");
  name.textContent = row.names[row.name[event]];
  details.replaceChildren(name, ` — ${row.label}, ${data.kinds[row.kind[event]]}: ${time(row.duration[event])}, from ${time(row.start[event])}`);
}

let dragged = null;
const fingers = new Map();  // how far to the right each pointer is that is down
const apart = () => { const [one = 0, other = 0] = fingers.values(); return Math.max(Math.abs(one - other), 1); };
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(event.deltaY > 0 ? 1.25 : 0.8, begin + event.offsetX / canvas.clientWidth * (end - begin));
}, { passive: false });
canvas.addEventListener("pointerdown", (event) => {
  fingers.set(event.pointerId, event.offsetX);
  dragged = { x: event.offsetX, begin, end };
  canvas.setPointerCapture(event.pointerId);
  describe(eventAt(event.offsetX, event.offsetY));  // a finger is never above without touching
});
for (const over of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(over, (event) => { fingers.delete(event.pointerId); dragged = null; });
}
canvas.addEventListener("pointermove", (event) => {
  const before = apart();
  if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event.offsetX);
  if (fingers.size === 2) {
    const [one, other] = fingers.values();
    zoom(before / apart(), begin + (one + other) / 2 / canvas.clientWidth * (end - begin));
    return;
  }
  if (!dragged) { describe(eventAt(event.offsetX, event.offsetY)); return; }
  const moved = (event.offsetX - dragged.x) / canvas.clientWidth * (dragged.end - dragged.begin);
  show(dragged.begin - moved, dragged.end - moved);
});
canvas.addEventListener("dblclick", () => show(0, whole));
document.addEventListener("keydown", (event) => {
  const part = (end - begin) / 5;
  const act = { "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.6), Escape: () => show(0, whole),
    ArrowLeft: () => show(begin - part, end - part), ArrowRight: () => show(begin + part, end + part) }[event.key];
  if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
});
window.addEventListener("resize", draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
