"""Draws the memory of a script as one HTML file, which loads nothing and runs no script."""

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path

from workshop.pages.template import MIB, Part, Values, bar, crashed, excerpts, fill, findings, keys, row, section, table
from workshop.probe.memory.memory_notes import SegmentName

COLOURS = {
    "parameters": "#3f88c5",
    "gradients": "#d95f5f",
    "optimizer state": "#4c9f70",
    "batches": "#8e7cc3",
    "activations": "#e69f3c",
    "in backward": "#c97fb1",
    "others": "#9aa3ad",
    "inside operators": "#b8860b",
    "of unknown kind": "#6b7a8f",
    "before the record": "#b9c0c8",
}
"""The colours of the kinds of tensors."""

MIN_SHARE = 0.005
"""Share of a peak, at least, of a line that is shown for itself."""

WIDTH, HEIGHT, BELOW = 900, 220, 30

EXPLANATION = """\
MiB at the peak, by the colour of the kind, beside the line that has allocated it. Who holds it is shown where the mouse
points."""

Point = tuple[float, float]


def page(name: str, found: Values, sources: Mapping[str, list[str]]) -> str:
    """Return a page that shows the memory of a script.

    Args:
        name: the script's.
        found: what was measured as plain values, as `workshop memory --json` prints them.
        sources: the lines of each file that is named, by its path.
    """
    told = ((each, f"{each['gain_bytes'] / MIB:.1f} MiB", _says(each)) for each in found["findings"])
    lines = [line for peak in found["peaks"] for line in peak["lines"]]
    whole = max((each["peak_bytes"] for each in found["peaks"]), default=1) or 1
    shown = excerpts(lines, found["findings"], sources, partial(_part, whole), _mib, MIN_SHARE)
    body = [
        f"<p><b>{escape(found['failure'])}</b></p>" if found["failure"] else crashed(found["crash"]),
        section("What could be freed", findings(told, sources)) if found["followed"] else "",
        *(_peak(each) for each in found["peaks"]),
        section("What grows", table(GROWING, map(_growing, found["growing"]))) if found["growing"] else "",
        _host(found) if found["host"] else "",
        section("The lines", f'<p class="quiet">{EXPLANATION}</p>{shown}') if shown else "",
        *(f"<p>{escape(note)}</p>" for note in found["notes"]),
    ]
    peaks = ", ".join(f"{each['peak_bytes'] / MIB:.1f} MiB on {each['device']}" for each in found["peaks"])
    return fill(f"{name}: {peaks or 'no tensors'}", f'<div class="measured">{"".join(body)}</div>', "workshop memory")


def _says(finding: Values) -> str:
    """What it takes, who holds it, and what to do."""
    rate = f", {finding['bytes_a_step'] / 1024:.1f} KiB a step" if finding["bytes_a_step"] else ""
    holder = f" Held by {finding['holder']}." if finding["holder"] else ""
    return f"{finding['share']:.0%} of the peak{rate} ({finding['basis']}).{holder} {finding['words']}"


def _peak(peak: Values) -> str:
    """The curve of the step with the peak, and what there was then."""
    whole = peak["peak_bytes"] or 1
    kinds = [
        bar(kind, [(COLOURS[kind], size / whole, kind)], f"{size / MIB:.1f} MiB, {size / whole:.0%}")
        for kind, size in peak["kinds"].items()
    ]
    present = {kind: COLOURS[kind] for kind in peak["kinds"]}
    curve = [(float(seconds), float(size)) for seconds, size in peak["curve"]]
    rows = map(_line, (each for each in peak["lines"] if each["bytes"] >= MIN_SHARE * whole))
    step = "" if peak["during"] == SegmentName.SNAPSHOT else f", step {peak['step']}"
    moment = "when an allocation failed" if peak["failure"] and not step else "at the peak"
    says = f"{peak['during']}{step}: {whole / MIB:.1f} MiB {moment}"
    return section(
        f"Tensors on {peak['device']}",
        f'<p class="quiet">{escape(says)}</p>{_curve(curve, "The bytes of tensors during the step")}'
        f"{keys(present)}{''.join(kinds)}{table(LINES, rows)}",
    )


LINES = ("kind", "line", "MiB", "tensors", "kept since", "held by")
GROWING = ("line", "KiB a step", "MiB so far", "held by", "until")
PROCESSES = ("process", "private, MiB", "shared, MiB", "its share, MiB", "grown by, MiB")
HELD = ("held in Python by", "what", "length", "MiB", "filled at")


def _line(line: Values) -> str:
    place = f"{Path(line['file']).name}:{line['line']}, {line['function']}" if line["file"] else ""
    held = f"{line['holder']} in {line['held_in']}" if line["holder"] else ""
    return row([line["kind"], place, f"{line['bytes'] / MIB:.2f}", str(line["count"]), line["since"], held])


def _growing(line: Values) -> str:
    place = f"{Path(line['file']).name}:{line['line']}, {line['function']}" if line["file"] else ""
    rate, size = f"{line['bytes_a_step'] / 1024:.1f}", f"{line['bytes'] / MIB:.2f}"
    return row([place, rate, size, line["holder"], line["until"]])


def _host(found: Values) -> str:
    """All processes over time, and each when they had most together."""
    host = found["host"]
    curve = [(float(each["s"]), float(each["together_bytes"])) for each in found["timeline"]]
    rows = [
        row(
            [
                each["role"],
                *(f"{each[name] / MIB:.1f}" for name in ("private", "shared", "pss", "grown_bytes")),
            ]
        )
        for each in host["processes"]
    ]
    more = (
        f"/dev/shm: {host['shared_memory_bytes'] / MIB:.1f} MiB. Loaded ahead, at most: "
        f"{host['prefetched_bytes'] / MIB:.1f} MiB. Together: {host['together_bytes'] / MIB:.1f} MiB."
    )
    drawn = _curve(curve, "What all processes have together over time")
    held = table(HELD, map(_held, found["held"])) if found["held"] else ""
    return section("The processes", f'{drawn}{table(PROCESSES, rows)}<p class="quiet">{escape(more)}</p>{held}')


def _held(held: Values) -> str:
    place = f"{Path(held['file']).name}:{held['line']}, {held['function']}" if held["line"] else ""
    return row([held["holder"], held["what"], str(held["length"]), f"{held['bytes'] / MIB:.1f}", place])


def _curve(points: Sequence[Point], label: str) -> str:
    """Draw a curve over seconds, with its highest point marked."""
    if not points:
        return ""
    first, longest = points[0][0], max(points[-1][0] - points[0][0], 1e-9)
    most = max(size for _, size in points) or 1.0

    def place(point: Point) -> Point:
        return (point[0] - first) / longest * WIDTH, HEIGHT * (1 - point[1] / most / 1.1)

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, points))
    x, y = place(max(points, key=lambda each: each[1]))
    anchor = "end" if x > WIDTH * 0.7 else "start"
    parts = [
        f'<line x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>',
        f'<polyline points="{line}"/>',
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"><title>the peak: {most / MIB:.1f} MiB</title></circle>',
        f'<text x="{x:.1f}" y="{y - 6:.1f}" text-anchor="{anchor}">{most / MIB:.1f} MiB</text>',
        f'<text x="0" y="{HEIGHT + 20}">0 s</text>',
        f'<text x="{WIDTH}" y="{HEIGHT + 20}" text-anchor="end">{longest:.3g} s</text>',
    ]
    box = f'viewBox="0 0 {WIDTH} {HEIGHT + BELOW}" role="img" aria-label="{escape(label)}"'
    return f'<svg class="curve" {box}>{"".join(parts)}</svg>'


def _part(whole: int, line: Values) -> Part:
    size = f"{line['kind']}: {line['bytes'] / MIB:.2f} MiB"
    says = f"{size}, since: {line['since']}, held by: {line['holder'] or '?'}"
    return COLOURS[line["kind"]], min(line["bytes"] / whole, 1.0), says


def _mib(lines: list[Values]) -> str:
    together = sum(each["bytes"] for each in lines)
    return f"{together / MIB:.2f}" if together >= MIB / 200 else ""
