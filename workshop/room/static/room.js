// What both pages use. Whatever a participant has sent becomes text, never markup.

export const OUTCOMES = {
  "done": ["✓", "done"],
  "half done": ["½", "half done"],
  "not there yet": ["→", "not there yet"],
  "not the same work": ["≠", "not the same work"],
  "undecided": ["?", "undecided"],
  "broken": ["!", "crashed"],
};

export function counted(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

export function element(tag, text = "", className = "", ...children) {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  made.append(...children);
  return made;
}

export function fill(id, ...children) {
  document.getElementById(id).replaceChildren(...children);
}

export function row(tag, ...cells) {
  const made = document.createElement("tr");
  for (const cell of cells) made.append(cell instanceof Node ? cell : element(tag, String(cell)));
  return made;
}

export function percent(share) {
  return `${Math.round(100 * share)} %`;
}

export function showTrouble(text) {
  const place = document.getElementById("trouble");
  place.hidden = !text;
  if (place.textContent !== text) place.textContent = text;
}

export function shortPart(name) {
  return name.replace("part", "");
}
