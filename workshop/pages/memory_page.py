"""Draws the memory of a script as one HTML file, which loads nothing and runs no script."""

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape

from workshop.notebooks.cell_places import place
from workshop.pages.template import Part, Values, bar, chart, excerpts, findings, keys, measured, quiet, table
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

EXPLANATION = """\
MiB at the peak, by the colour of the kind, beside the line that has allocated it. Who holds it is shown where the mouse
points."""

Point = tuple[float, float]


def page(name: str, found: Values, sources: Mapping[str, list[str]]) -> str:
    """Return a page that shows what `workshop memory --json` prints, with the lines of each file that is named."""
    told = ((each, _mib(each["gain_bytes"]), _says(each)) for each in found["findings"])
    lines = [line for peak in found["peaks"] for line in peak["lines"]]
    whole = max((each["peak_bytes"] for each in found["peaks"]), default=1) or 1
    part = partial(_part, whole)
    sections = {
        "What could be freed": findings(told, sources) if found["followed"] else "",
        **{f"Tensors on {each['device']}": _peak(each) for each in found["peaks"]},
        "What grows": table(GROWING, map(_growing, found["growing"])),
        "The processes": _host(found) if found["host"] else "",
        "The lines": excerpts(lines, found["findings"], sources, part, _together, MIN_SHARE, EXPLANATION),
    }
    peaks = ", ".join(f"{_mib(each['peak_bytes'])} on {each['device']}" for each in found["peaks"])
    return measured(f"{name}: {peaks or 'no tensors'}", "", found, sections, "workshop memory")


def _says(finding: Values) -> str:
    """What it takes, who holds it, and what to do."""
    rate = f", {finding['bytes_a_step'] / 1024:.1f} KiB a step" if finding["bytes_a_step"] else ""
    holder = f" Held by {finding['holder']}." if finding["holder"] else ""
    return f"{finding['share']:.0%} of the peak{rate} ({finding['basis']}).{holder} {finding['words']}"


def _peak(peak: Values) -> str:
    """The curve of the step with the peak, and what there was then."""
    whole = peak["peak_bytes"] or 1
    kinds = [
        bar(kind, [(COLOURS[kind], size / whole, kind)], f"{_mib(size)}, {size / whole:.0%}")
        for kind, size in peak["kinds"].items()
    ]
    present = {kind: COLOURS[kind] for kind in peak["kinds"]}
    curve = [(float(seconds), float(size)) for seconds, size in peak["curve"]]
    rows = map(_line, (each for each in peak["lines"] if each["bytes"] >= MIN_SHARE * whole))
    step = "" if peak["during"] == SegmentName.SNAPSHOT else f", step {peak['step']}"
    moment = "when an allocation failed" if peak["failure"] and not step else "at the peak"
    says = quiet(escape(f"{peak['during']}{step}: {_mib(whole)} {moment}"))
    drawn = _curve(curve, "The bytes of tensors during the step")
    return f"{says}{drawn}{keys(present)}{''.join(kinds)}{table(LINES, rows)}"


LINES = ("kind", "line", "MiB", "tensors", "kept since", "held by")
GROWING = ("line", "KiB a step", "MiB so far", "held by", "until")
PROCESSES = ("process", "private, MiB", "shared, MiB", "its share, MiB", "grown by, MiB")
HELD = ("held in Python by", "what", "length", "MiB", "filled at")


def _line(line: Values) -> list[str]:
    held = f"{line['holder']} in {line['held_in']}" if line["holder"] else ""
    return [line["kind"], _place(line), _number(line["bytes"], 2), str(line["count"]), line["since"], held]


def _growing(line: Values) -> list[str]:
    rate = f"{line['bytes_a_step'] / 1024:.1f}"
    return [_place(line), rate, _number(line["bytes"], 2), line["holder"], line["until"]]


def _host(found: Values) -> str:
    """All processes over time, and each when they had most together."""
    host = found["host"]
    curve = [(float(each["s"]), float(each["together_bytes"])) for each in found["timeline"]]
    sizes = ("private", "shared", "pss", "grown_bytes")
    rows = ([each["role"], *(_number(each[name]) for name in sizes)] for each in host["processes"])
    more = f"/dev/shm: {_mib(host['shared_memory_bytes'])}. Loaded ahead, at most: {_mib(host['prefetched_bytes'])}. "
    more += f"Together: {_mib(host['together_bytes'])}."
    drawn = _curve(curve, "What all processes have together over time")
    held = table(HELD, map(_held, found["held"]))
    return f"{drawn}{table(PROCESSES, rows)}{quiet(escape(more))}{held}"


def _held(held: Values) -> list[str]:
    return [held["holder"], held["what"], str(held["length"]), _number(held["bytes"]), _place(held)]


def _place(line: Values) -> str:
    return f"{place(line['file'], line['line'])}, {line['function']}" if line["file"] and line["line"] else ""


def _curve(points: Sequence[Point], label: str) -> str:
    """Draw a curve over seconds, with its highest point marked."""
    if not points:
        return ""
    first, longest = points[0][0], max(points[-1][0] - points[0][0], 1e-9)
    most, width, height = max(size for _, size in points) or 1.0, 900, 220

    def place(point: Point) -> Point:
        return (point[0] - first) / longest * width, height * (1 - point[1] / most / 1.1)

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, points))
    x, y = place(max(points, key=lambda each: each[1]))
    anchor = "end" if x > width * 0.7 else "start"
    parts = [
        f'<line x1="0" x2="{width}" y1="{height}" y2="{height}"/>',
        f'<polyline points="{line}"/>',
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"><title>the peak: {_mib(most)}</title></circle>',
        f'<text x="{x:.1f}" y="{y - 6:.1f}" text-anchor="{anchor}">{_mib(most)}</text>',
        f'<text x="0" y="{height + 20}">0 s</text>',
        f'<text x="{width}" y="{height + 20}" text-anchor="end">{longest:.3g} s</text>',
    ]
    return chart(parts, width, height + 30, label)


def _part(whole: int, line: Values) -> Part:
    says = f"{line['kind']}: {_number(line['bytes'], 2)} MiB, since: {line['since']}, held by: {line['holder'] or '?'}"
    return COLOURS[line["kind"]], min(line["bytes"] / whole, 1.0), says


def _together(lines: list[Values]) -> str:
    """The MiB of some lines; nothing where they would round to 0."""
    together = _number(sum(each["bytes"] for each in lines), 2)
    return "" if float(together) == 0 else together


def _number(size: float, digits: int = 1) -> str:
    return f"{size / 2**20:.{digits}f}"


def _mib(size: float) -> str:
    return f"{_number(size)} MiB"
