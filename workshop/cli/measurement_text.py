"""A measurement as a person reads it, in a terminal of 80 columns, with or without colour."""

from rich.table import Table
from rich.text import Text

from workshop.cli.output import bar, console
from workshop.diagnosis.measurement import MeasuredSteps, Measurement
from workshop.probe.phases import Phase

COMPUTING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)

NOISY = 2.5
"""Upper bound on the speed-up of compute alone once no worker competes for the cores; more is the doing of another
program."""

WORTH_IT = 1.1
"""With less to gain, nobody should write a data pipeline."""


def print_measurement(name: str, found: Measurement) -> None:
    """Print where a step's time goes, and what the data pipeline could gain."""
    out = console()
    steps = found.steps
    milliseconds = steps.wall_s / steps.count * 1e3
    count = f"{steps.count} step{'s' * (steps.count > 1)}"
    out.print(f"\n{name}: {count} of {milliseconds:.1f} ms, {steps.samples_per_s:.1f} samples/s\n")
    out.print(_phases(found.table, found.headroom))
    if found.synchronized:
        out.print("\nPhases: with a wait for the GPU after each of them. Without, its work runs beside the CPU's.")
    for note in found.notes:
        out.print(f"\n{note}")
    if found.headroom:
        out.print(f"\n{_gain(steps, found.headroom)}")


def _phases(steps: MeasuredSteps, headroom: MeasuredSteps | None) -> Table:
    """Milliseconds a step, phase by phase."""
    table = Table.grid(padding=(0, 2))
    memory = Text("from memory", "bold") if headroom else ""
    table.add_row("", Text("ms a step", "bold"), Text("share", "bold"), "", memory)
    for column in table.columns[1:3]:
        column.justify = "right"
    table.columns[4].justify = "right"
    for phase, seconds in [*steps.phases_s.items(), ("together", sum(steps.phases_s.values()))]:
        share = seconds / steps.wall_s
        length = "" if phase == "together" else bar(share, 1.0)
        of_memory = ""
        if headroom:
            of_memory = f"{headroom.phases_s.get(phase, sum(headroom.phases_s.values())) / headroom.count * 1e3:.1f}"
        table.add_row(phase, f"{seconds / steps.count * 1e3:.1f}", f"{share:.0%}", length, of_memory)
    return table


def _gain(steps: MeasuredSteps, headroom: MeasuredSteps) -> str:
    ratio = headroom.samples_per_s / steps.samples_per_s
    says = f"Headroom: {headroom.samples_per_s:.1f} samples/s with batches from memory, {ratio:.2f} times as fast"
    fast, slow = sorted(sum(each.phases_s[phase] for phase in COMPUTING) / each.count for each in (steps, headroom))
    if slow > NOISY * fast:
        return f"{says}.\nThe computing itself took {slow / fast:.1f} times as long in one of the two: measure again."
    if ratio < WORTH_IT:
        return f"{says}.\nThe data are not what holds this script up."
    return f"{says}.\nNo data pipeline can gain more than that. Parts 3 and 5 show how to get there."
