"""Draws a flame graph in the format that the name of its file asks for: as a page, a picture, or for speedscope.

The picture is for documents; it shows the whole name of the frame that the mouse rests on.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.pages import template
from workshop.pages.flame_tree import WAITING_THREADS, Kind, Label, Node, build
from workshop.profiles.stacks import Frame, Recording
from workshop.terminal import cut

WIDTH, HEAD, ROW, CHARACTER = 1200, 46, 17, 6.7
"""Pixels of a picture: its width; the heights of what is above the frames, and of a frame; and the width of a character
of the monospace font, rounded up."""

BODY = """\
<div id="tools">
  <input id="search" type="search" placeholder="Search (/)" aria-label="Search frames" spellcheck="false" autocomplete="off">
  <button id="reset" type="button">Reset (Esc)</button>
  <span id="widths" hidden>
    <label><input type="radio" name="widths" value="after" checked> after</label>
    <label><input type="radio" name="widths" value="before"> before</label>
  </span>
  <label id="folding" hidden><input type="checkbox" id="fold" checked> fold <span id="folded"></span></label>
  <span id="matched" role="status"></span>
</div>
<div class="keys" id="legend"></div>
<main id="graph" role="tree" aria-label="Flame graph"></main>
<footer id="details" aria-live="polite"></footer>
"""  # noqa: E501


STYLE = """\
svg { background: #fff; font: 11px monospace; }
text { fill: #1b1f24; pointer-events: none; } .title { font-size: 15px; }
rect { stroke: #fff; stroke-width: .5; } g:hover rect { stroke: #000; }
.user { fill: #f59e4b; } .library { fill: #a9c7e8; } .native { fill: #c9cdd2; }
.worker { fill: #b7ddb0; } .process { fill: #e6e1d6; } .more { fill: #dc2626; } .less { fill: #2563eb; }
@media (prefers-color-scheme: dark) {
  svg { background: #14171b; } text { fill: #f0f3f6; } rect { stroke: #14171b; } g:hover rect { stroke: #fff; }
  .user { fill: #b4560d; } .library { fill: #2c5282; } .native { fill: #4a5058; }
  .worker { fill: #2f6b3a; } .process { fill: #4b4436; } }
"""
LEGEND = {
    Kind.USER: "your code",
    Kind.LIBRARY: "libraries",
    Kind.NATIVE: "native code",
    Kind.WORKER: "DataLoader workers",
}


def draw(output: Path, recording: Recording, before: Recording | None = None, library: str = "") -> str:
    """Return the text of a file that shows stacks.

    Args:
        output: the file; its name ends in .html, .svg, or .speedscope.json.
        recording: the stacks.
        before: a recording to compare with; not for speedscope.
        library: a text that the paths of the user's code contain.

    Raises:
        WorkshopError: the file's name asks for no known format.
    """
    title = " compared with ".join(
        " and ".join(sorted({Path(source).name for source in each.sources})) for each in (recording, before) if each
    )
    if output.suffix == ".html":
        notes = [note for each in (before, recording) if each for note in each.notes]
        return page(build(recording, before, library), title, before is not None, notes)
    if output.suffix == ".svg":
        return svg(build(recording, before, library), title, before is not None)
    if output.suffix == ".json" and before is None:
        return speedscope(recording, title)
    formats = ".html or .svg" if before is not None else ".html, .svg or .speedscope.json"
    raise WorkshopError(f"cannot draw {output}: its name must end in {formats}")


def page(root: Node, title: str, compared: bool = False, notes: Sequence[str] = ()) -> str:
    """Return the page of a tree, whose nodes may compare two recordings, with notes on top.

    The page gets the nodes in depth-first order, as the numbers of each: depth, label, samples, and samples before.
    """
    labels: dict[Label, int] = {}
    numbers: list[int] = []
    waiting = [(0, root)]
    while waiting:
        depth, node = waiting.pop()
        numbers += depth, labels.setdefault(node.label, len(labels)), node.samples
        if compared:
            numbers.append(node.before)
        waiting += [(depth + 1, child) for child in reversed(node.sorted_children())]
    kinds = list(Kind)
    data = {
        "compared": compared,
        "kinds": kinds,
        "labels": [label.text for label in labels],
        "kindOf": [kinds.index(label.kind) for label in labels],
        "imports": [number for label, number in labels.items() if label.is_import],
        "waits": [number for label, number in labels.items() if label.text == WAITING_THREADS],
        "nodes": numbers,
    }
    on_top = "".join(f"<p>{escape(note)}</p>\n" for note in notes)
    return template.fill(title, on_top + BODY, "workshop flamegraph", "flame_graph.js", data)


def speedscope(recording: Recording, title: str) -> str:
    """Return a file with a profile for each process and thread, the busiest first; weights are samples.

    The format is that of https://www.speedscope.app/file-format-schema.json.
    """
    frames: dict[Frame, int] = {}
    samples: dict[str, list[list[int]]] = defaultdict(list)
    weights: dict[str, list[int]] = defaultdict(list)
    for stack in recording.stacks:
        name = ", ".join(str(part) for part in (*stack.processes[-1:], stack.thread) if part) or title
        samples[name].append([frames.setdefault(frame, len(frames)) for frame in stack.frames])
        weights[name].append(stack.samples)
    profiles = [
        {
            "type": "sampled",
            "name": name,
            "unit": "none",
            "startValue": 0,
            "endValue": sum(weights[name]),
            "samples": samples[name],
            "weights": weights[name],
        }
        for name in sorted(samples, key=lambda name: (-sum(weights[name]), name))
    ]
    shared = [
        {"name": frame.name}
        | ({"file": frame.path} if frame.path else {})
        | ({"line": frame.line} if frame.line else {})
        for frame in frames
    ]
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "profiling-workshop",
            "name": title,
            "activeProfileIndex": 0,
            "shared": {"frames": shared},
            "profiles": profiles,
        },
        separators=(",", ":"),
    )


def svg(root: Node, title: str, compared: bool = False) -> str:
    """Return the picture; in a comparison, widths are samples after, and frames with fewer samples before are red.

    What an import does is left out, and so are threads that only wait; the title says how many samples they have.
    """
    after, before = _without_waiting(root)
    if after or before:
        samples = f"{after} and {before} samples" if compared else f"{after} samples"
        title += f", without {samples} of {WAITING_THREADS}"
    boxes = list(_boxes(root))
    height = HEAD + ROW * (max(depth for _, depth, _, _ in boxes) + 1) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f"<metadata>workshop flamegraph</metadata><title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="4" y="18">{escape(title)}</text>',
        *_legend(compared),
    ]
    for node, depth, left, width in boxes:
        y = HEAD + depth * ROW
        says = f"{node.label.text}: {node.samples} samples, {node.samples / (root.samples or 1):.2%}"
        look = f'class="{node.label.kind}"'
        if compared:
            says += f"; {node.before} before"
            look = _change(node, max(root.samples, root.before))
        letters = int((width - 4) / CHARACTER)
        text = escape(cut(node.label.text, letters))
        words = f'<text x="{left + 2:.1f}" y="{y + 12}">{text}</text>' if letters >= 3 else ""
        box = f'<rect x="{left:.2f}" y="{y}" width="{width:.2f}" height="{ROW - 1}" rx="1.5" {look}/>'
        lines.append(f"<g><title>{escape(says)}</title>{box}{words}</g>")
    return "\n".join([*lines, "</svg>", ""])


def _boxes(root: Node) -> Iterator[tuple[Node, int, float, float]]:
    """Yield each node that is wide enough to be seen, 0.4 pixels, with its depth, left edge and width."""
    scale = WIDTH / (root.samples or 1)
    waiting = [(root, 0, 0.0)]
    while waiting:
        node, depth, left = waiting.pop()
        yield node, depth, left, node.samples * scale
        if node.label.is_import:
            continue
        for child in node.sorted_children():
            if child.samples * scale >= 0.4:
                waiting.append((child, depth + 1, left))
            left += child.samples * scale


def _without_waiting(node: Node, depth: int = 0) -> tuple[int, int]:
    """Take the threads that only wait out of a tree, and return how many samples they have, and had before."""
    if node.label.text == WAITING_THREADS:
        gone = node.samples, node.before
    elif depth > 3:  # threads are below the root, the file and the process
        gone = 0, 0
    else:
        of_children = [_without_waiting(child, depth + 1) for child in (node.children or {}).values()]
        gone = sum(after for after, _ in of_children), sum(before for _, before in of_children)
    node.samples, node.before = node.samples - gone[0], node.before - gone[1]
    return gone


def _change(node: Node, of: int) -> str:
    """Return the look of a node in a comparison; a change by a twentieth of all samples has full colour."""
    change = node.samples - node.before
    if not change:
        return 'class="native"'
    strength = min(1.0, 0.2 + 16 * abs(change) / (of or 1))
    return f'class="{"more" if change > 0 else "less"}" fill-opacity="{strength:.2f}"'


def _legend(compared: bool) -> Iterator[str]:
    names = {"more": "more samples than before", "less": "fewer", "native": "as many"} if compared else LEGEND
    left = 4.0
    for name, words in names.items():
        yield f'<rect class="{name}" x="{left:.0f}" y="27" width="11" height="11"/>'
        yield f'<text x="{left + 15:.0f}" y="37">{words}</text>'
        left += 30 + CHARACTER * len(words)
