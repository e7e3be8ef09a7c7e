"""Draws a flame graph in the format that the name of its file asks for: as a page, a picture, or for speedscope."""

import json
from collections import defaultdict
from collections.abc import Sequence
from html import escape
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.pages import template
from workshop.pages.flame_svg import svg
from workshop.pages.flame_tree import WAITING_THREADS, Kind, Label, Node, build
from workshop.profiles.stacks import Frame, Recording

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
