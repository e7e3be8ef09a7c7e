"""A measurement as a person reads it, in a terminal of 80 columns: the bottlenecks, and the steps."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from workshop.cli.finding_text import print_findings
from workshop.cli.output import console, filled
from workshop.cli.result_text import filled_crash
from workshop.cli.terminal_tables import bar, table
from workshop.diagnosis.causes.data_wait import OF_WORKERS
from workshop.diagnosis.diagnosis import Diagnosis, LineTime
from workshop.diagnosis.findings import MIN_GAIN, Finding
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.tried import TriedChange, tried_changes
from workshop.notebooks.cell_places import place
from workshop.probe.cause import CausePlace
from workshop.probe.phases import COMPUTING, TRACED, Phase
from workshop.runs.measured_steps import MeasuredSteps
from workshop.runs.other_load import about

MIN_SHARE = 0.05
"""Share of a step, at least, of a line in the table."""

MOST_LINES = 8
"""Lines, at most, in the table of what each takes on the host and on the device."""

TRACED_STEPS = (
    "In traced steps, the profiler makes the host slower, but not the GPU. The host waits in a line for a result, or "
    "for room in the queue of launches, while the GPU does what another line has asked for."
)

NO_FAULT = "No fault of the script, but faster in a trial:"


def print_diagnosis(name: str, diagnosis: Diagnosis) -> None:
    """Print where a step's time goes, line by line, the bottlenecks, and the potential speedup of each fix."""
    out, found, causes = console(), diagnosis.measurement, diagnosis.findings
    steps, rough = found.steps, about(found.machine is not None and found.machine.busy)
    count = f"{steps.count} step{'s' * (steps.count > 1)}"
    out.print(Text(f"\n{name}: {count} of {steps.ms_a_step:.1f} ms, {steps.samples_per_s:.1f} samples/s\n"))
    if diagnosis.headrooms and (says := diagnosis.headrooms.says):
        out.print(Text(f"{filled(says)}\n", "bold"))
    if found.crash:
        out.print(Text(f"{filled_crash(found.crash)}\n", "bold red"))
    if found.ranks:
        out.print(_ranks(found.ranks, diagnosis.waits_ms))
        waits = ", for which the others wait" if any(each.cause == "slow-rank" for each in causes) else ""
        out.print(f"\nRank {diagnosis.rank}{waits}:\n")
    out.print(_phases(found.table, found.headroom, diagnosis.lines))
    if found.synchronized:
        out.print("\nPhases: with a wait for the GPU after each of them. Without, its work runs beside the CPU's.")
    if any(each.phase == Phase.BACKWARD and each.share >= MIN_SHARE for each in diagnosis.lines):
        out.print("\nBackward: with the lines of the forward pass whose gradients take the time.")
    if found.traced:
        out.print()
        out.print(_traced(diagnosis.lines, on_gpu=found.circumstances.device == "cuda"))
        out.print(f"\n{filled(TRACED_STEPS)}")
    for note in found.notes:
        out.print(Text(f"\n{note}"))
    tried = [f"{each.ms_a_step:.1f} ms with num_workers={number}" for number, each in found.with_workers.items()]
    tried += [f"{each.ms_a_step:.1f} ms with whole batches" for each in [found.whole_batches] if each]
    if tried:
        out.print(Text(f"\nTried: a step took {', '.join(tried)}."))
    if diagnosis.headroom and any(each.phase == Phase.DATA_WAIT for each in causes):
        out.print(f"\n{_gain(steps, diagnosis.headroom, causes, rough)}")
    tried_ways = tried_changes(found)
    undecided = [each for each in tried_ways if each.is_undecided]
    if undecided:
        names = ", ".join(f"{each.name} ({each.gain:.1f}x)" for each in undecided)
        says = f"Faster in a trial, but that may come from other programs: {names}. Measure it again without them."
        out.print(Text(f"\n{filled(says)}"))
    may_be_faults = any(each.cause.place is not CausePlace.OPTION for each in undecided)
    print_findings(causes, rough, "Faster in a trial:" if may_be_faults else NO_FAULT)
    if not (causes or may_be_faults):
        out.print(Text(f"\n{filled(_as_it_should_be(found.table, hidden=bool(rough)))}"))
    if says := _without_effect(tried_ways):
        out.print(Text(f"\n{filled(says)}"))


def _without_effect(tried: list[TriedChange]) -> str:
    """Say what need not be tried again, and what could not be tried; empty if there is nothing."""
    little = [
        f"{each.name} ({each.gain:.2f}x{', which may be noise' if each.gain >= MIN_GAIN and not each.sure else ''})"
        for each in tried
        if not (each.error or each.has_effect or each.is_undecided)
    ]
    failed = [f"{each.name} ({each.error})" for each in tried if each.error]
    lists = {"Tried without effect": little, "Could not be tried": failed}
    return " ".join(f"{says}: {', '.join(names)}." for says, names in lists.items() if names)


def _ranks(ranks: dict[int, Measurement], waits_ms: dict[int, float]) -> Table:
    """Milliseconds per step of each rank, and how many of them it waits for the others."""
    shown = [phase for phase in Phase if phase in TRACED or any(each.steps.phases_s[phase] for each in ranks.values())]
    names = ("ms a step", *(phase.short for phase in shown), "waits")
    rows = (
        (f"rank {rank}", *(f"{ms:.1f}" for ms in (*map(each.steps.ms_in, shown), waits_ms[rank])))
        for rank, each in ranks.items()
    )
    return table(names, rows, right=range(1, len(names)))


def _phases(steps: MeasuredSteps, headroom: MeasuredSteps | None, lines: list[LineTime]) -> Table:
    """Milliseconds per step, phase by phase, with the first two lines of each phase."""
    rows: list[Sequence[str | Text]] = []
    for phase, seconds in [*steps.phases_s.items(), ("together", sum(steps.phases_s.values()))]:
        if phase == Phase.VALIDATION and not seconds:
            continue
        share = seconds / steps.wall_s
        length = "" if phase == "together" else bar(share, 1.0)
        of_memory = ""
        if headroom:
            of_memory = f"{headroom.phases_s.get(phase, sum(headroom.phases_s.values())) / headroom.count * 1e3:.1f}"
        rows.append((phase, f"{seconds / steps.count * 1e3:.1f}", f"{share:.0%}", length, of_memory))
        for line in [each for each in lines if each.phase == phase and each.share >= MIN_SHARE and each.file][:2]:
            cells = (f"  {place(line.file, line.line)}", f"{line.ms_a_step:.1f}", "", line.function[:20])
            rows.append([Text(each, "dim") for each in cells])
    return table(("", "ms a step", "share", "", "from memory" if headroom else ""), rows, right=(1, 2, 4))


def _traced(lines: list[LineTime], on_gpu: bool) -> Table:
    """Milliseconds a step on the host and on the device of the lines that take most, in all phases together."""
    figures = dict[str, list[float]]()
    longest = dict[str, LineTime]()
    for each in (each for each in lines if each.host_ms is not None):
        name = place(each.file, each.line) if each.file else each.text[:30]
        ms = each.host_ms or 0.0, each.device_ms or 0.0, each.waits_ms or 0.0
        figures[name] = [one + other for one, other in zip(figures.get(name, (0.0, 0.0, 0.0)), ms, strict=True)]
        longest[name] = max(longest.get(name, each), each, key=lambda line: line.waits_ms or 0.0)
    together = [sum(column) for column in zip(*figures.values(), strict=True)]
    shown = [name for name, ms in figures.items() if max(ms) >= MIN_SHARE * max(together)]
    rows = [
        (name, *map(_ms, figures[name]), longest[name].waits_for or "")
        for name in sorted(shown, key=lambda name: -sum(figures[name]))[:MOST_LINES]
    ]
    names = "in traced steps", "host ms", "GPU ms" if on_gpu else "operators ms", "waits ms", "for"
    return table(names, [*rows, ("together", *map(_ms, together), "")], right=(1, 2, 3))


def _ms(ms: float) -> str:
    return f"{ms:.1f}" if ms >= 0.05 else ""


def _gain(steps: MeasuredSteps, headroom: MeasuredSteps, causes: list[Finding], rough: str) -> str:
    ratio = steps.ms_a_step / headroom.ms_a_step
    rate = f"{rough}{headroom.samples_per_s:.1f} samples/s with batches from memory"
    says = f"Headroom: {rate}, a speedup of {rough}{ratio:.2f}x."
    if any(each.cause in OF_WORKERS and each.gain > ratio for each in causes):
        return f"{says}\nThe present workers take time from the training: a trial with others gained more (see below)."
    is_worth_a_pipeline = ratio >= 1.1 and not rough
    return f"{says}\nNo data pipeline can gain more than that." if is_worth_a_pipeline else says


def _as_it_should_be(steps: MeasuredSteps, hidden: bool) -> str:
    """Say what a step is where no cause was found; beside other programs, causes may be `hidden`."""
    largest = max(Phase, key=lambda phase: steps.phases_s.get(phase, 0.0))
    says = f": {steps.share(*COMPUTING):.0%} of a step is computing, most of it {largest}."
    if largest not in COMPUTING:
        says = f". The largest phase is {largest}, {steps.share(largest):.0%} of a step."
    return f"None of the known causes was found{says}{' The load of other programs may hide causes.' * hidden}"
