"""Draws a measurement as one HTML file, which loads nothing and runs no script."""

from collections.abc import Iterable, Mapping, Sequence

from workshop.notebooks.cell_places import place
from workshop.pages.template import PHASE_COLOURS, Part, Values, bar, excerpts, findings, measured, table
from workshop.probe.phases import Phase
from workshop.runs.other_load import about

EXPLANATION = """\
Milliseconds a step, by the colour of the phase: in the training's own process, and in its workers while the training
waits for them. A backward pass is divided among the lines of the forward pass that it belongs to."""


WITHOUT = {
    "data": "the wait for data",
    "launches": "Python, and the calls of operators",
    "arithmetic": "what operators take beyond full speed",
}
"""The headrooms, in words."""


def page(name: str, found: Values, sources: Mapping[str, list[str]]) -> str:
    """Return a page that shows what `workshop measure --json` prints, with the lines of each file that is named."""
    steps = found["steps"]
    each_ms = steps["wall_s"] / steps["count"] * 1e3
    rough = about(bool(found["machine"] and found["machine"]["busy"]))
    about_each = [(each, rough if each["gain_low"] is not None else "") for each in found["findings"]]
    shown = findings(((each, f"{about}{each['speedup']}", _says(each, about)) for each, about in about_each), sources)
    summary = f"{steps['count']} steps in {steps['wall_s']:.1f} s, {steps['samples_per_s']:.1f} samples/s"
    headrooms = found["headrooms"] or {"says": "", "known": []}
    summary = f"{summary}. {headrooms['says']}".removesuffix(". ")
    sections = {
        "Bottlenecks": shown,
        "Where a step's time goes": _ranks(found["ranks"]) + _phases(found["synchronized"] or steps),
        "On the host and on the device": _traced(found["lines"], found["traced_on"] == "cuda"),
        "What a step could take at best": _limits(headrooms["known"]),
        "What was tried": table(("", "of", "speedup of a step", ""), _tried(found)),
        "Every measured step": _steps(steps["durations_s"]),
        "The lines": excerpts(found["lines"], found["findings"], sources, _part, _ms, 0.01, EXPLANATION),
    }
    return measured(f"{name}: {each_ms:.1f} ms a step", summary, found, sections, "workshop measure")


def _says(finding: Values, rough: str) -> str:
    """What it costs, what is gained, and what to do."""
    durations = f"A step of {finding['step_ms']:.1f} ms would take {rough}{finding['fixed']} ({finding['basis']})."
    return f"{finding['ms_a_step']:.1f} ms a step, {finding['share']:.0%} of it. {durations} {finding['words']}"


def _limits(known: list[Values]) -> str:
    """A row for each headroom."""
    rows = [(WITHOUT[each["half"]], f"{each['left_ms']:.1f}", f"{each['gain']:.2f}x", each["known"]) for each in known]
    return table(("without", "ms a step", "speedup", "how it is known"), rows, words=(3,))


def _tried(found: Values) -> Iterable[Sequence[str]]:
    """A row for each way to load or to compute that was tried, also where it brought nothing."""
    step_s = found["steps"]["wall_s"] / found["steps"]["count"]
    for workers, steps in found["with_workers"].items():
        gain = step_s / (steps["wall_s"] / steps["count"])
        yield f"num_workers={workers}", "", f"{gain:.2f}x", ""
    for each in found["trials"]:
        gain = "" if each["error"] else f"{each['gain']:.2f}x"
        without = "undecided, beside other programs" if each["is_undecided"] else "without effect"
        became = each["error"] or ("" if each["has_effect"] else without)
        yield each["name"], each["about"], gain, became


def _traced(lines: list[Values], on_gpu: bool) -> str:
    """A row for each line and phase of the steps that were traced."""
    rows = [
        (
            each["file"] and place(each["file"], each["line"]),
            each["text"],
            each["phase"],
            *(f"{each[name]:.2f}" for name in ("host_ms", "device_ms", "waits_ms")),
            each["waits_for"] or "",
        )
        for each in lines
        if each["host_ms"] is not None
    ]
    names = "", "", "phase", "host ms", "GPU ms" if on_gpu else "operators ms", "waits ms", "for"
    return table(names, rows, words=(1, 2)) if rows else ""


def _ranks(ranks: list[Values]) -> str:
    """A row for each rank: the milliseconds of each phase, and how long it waits for the others."""
    rows = []
    for each in ranks:
        steps = each["steps"]
        of_phases = (seconds / steps["count"] * 1e3 for seconds in steps["phases_s"].values())
        rows.append([f"rank {each['rank']}", *(f"{ms:.1f}" for ms in (*of_phases, each["waits_ms"]))])
    return table(("ms a step", *Phase, "waits"), rows)


def _phases(steps: Values) -> str:
    whole, bars = sum(steps["phases_s"].values()) or 1.0, ""
    for phase in Phase:
        seconds = steps["phases_s"][phase]
        share = seconds / whole
        if seconds or phase != Phase.VALIDATION:
            bars += bar(phase, [(phase.colour, share, phase)], f"{seconds / steps['count'] * 1e3:.1f} ms, {share:.0%}")
    return bars


def _steps(durations_s: list[float], most: int = 2000) -> str:
    """Draw a point for each step, from 0 to the longest; if there are more than `most`, for several in a row."""
    together = -(-len(durations_s) // most)
    chunks = [durations_s[begin : begin + together] for begin in range(0, len(durations_s), together)]
    longest = max(durations_s, default=1.0)
    width = 1000 / max(len(chunks), 1)
    wide = max(width * 0.8, 0.5)
    bars = "".join(
        f'<rect x="{number * width:.2f}" y="{180 - height:.1f}" width="{wide:.2f}" height="{height:.1f}">'
        f"<title>step {number * together}: {max(chunk) * 1e3:.1f} ms</title></rect>"
        for number, chunk in enumerate(chunks)
        for height in [180 * max(chunk) / longest]
    )
    middle = sorted(durations_s)[len(durations_s) // 2] if durations_s else 0.0
    line = 180 * (1 - middle / longest)
    return (
        f'<div class="scale"><span>{longest * 1e3:.1f} ms</span><span>the line: half of them take no longer than '
        f"{middle * 1e3:.1f} ms</span></div>"
        '<svg viewBox="0 0 1000 180" preserveAspectRatio="none" role="img" aria-label="The duration of each step">'
        f'{bars}<line x1="0" x2="1000" y1="{line:.1f}" y2="{line:.1f}"/></svg>'
        f'<div class="scale"><span>step 0</span><span>step {len(durations_s) - 1}</span></div>'
    )


def _part(line: Values) -> Part:
    says = f"{line['phase']}, {line['process']}: {line['ms_a_step']:.1f} ms"
    return PHASE_COLOURS[line["phase"]], min(line["share"], 1.0), says


def _ms(lines: list[Values]) -> str:
    together = sum(each["ms_a_step"] for each in lines)
    return f"{together:.1f}" if together >= 0.05 else ""
