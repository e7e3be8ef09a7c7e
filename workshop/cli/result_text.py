"""A verdict and a measurement as a person reads them, in a terminal of 80 columns, with or without colour."""

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from workshop.cli.output import commands, console
from workshop.judge.verdict import Outcome, Speed, Verdict
from workshop.probe.phases import Phase

if TYPE_CHECKING:
    from workshop.diagnosis.measurement import MeasuredSteps, Measurement

_BAR_WIDTH = 20
_STYLES = {
    Outcome.DONE: "bold green",
    Outcome.NOT_YET: "bold yellow",
    Outcome.UNDECIDED: "bold yellow",
    Outcome.OTHER_WORK: "bold red",
    Outcome.BROKEN: "bold red",
}

COMPUTING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)

NOISY = 2.5
"""Without workers that compete for the cores, compute is up to this many times as fast; a larger ratio is noise."""

WORTH_IT = 1.1
"""The smallest speed-up for which a better data pipeline is worth writing."""


def print_verdict(verdict: Verdict) -> None:
    """Print the outcome, why, the figures, and what to look at next."""
    out = console()
    says = "crashed" if verdict.outcome is Outcome.BROKEN else verdict.outcome.value
    out.print(Text(f"\n{verdict.subject}: {says}", _STYLES[verdict.outcome]))
    for reason in verdict.reasons:
        out.print(Text(f"- {reason}"))
    if verdict.output:
        out.print(Text(f"\n{verdict.output}", "dim"))
    if verdict.speed:
        out.print("", _figures(verdict.speed), "", _race_phases(verdict.speed), sep="\n")
    if verdict.shares:
        out.print("", _shares(verdict.shares), sep="\n")
    if verdict.next.startswith(("workshop ", "kernprof ")):
        out.print(Text(f"\nNext:\n\n{commands(*verdict.next.splitlines())}"))
    elif verdict.next:
        out.print(Text(f"\nNext: {verdict.next}"))


def _shares(shares: dict[str, float]) -> Table:
    table = Table.grid(padding=(0, 1))
    for name, share in shares.items():
        table.add_row(name, f"{share:5.0%}", _bar(share, 1.0))
    return table


def _figures(speed: Speed) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row(speed.original, f"{speed.rate_before:.1f} samples/s")
    interval = f"95 %: {speed.low:.2f} to {speed.high:.2f}, {speed.pairs} pairs"
    table.add_row(speed.candidate, f"{speed.rate_after:.1f} samples/s, {speed.ratio:.2f} times as fast ({interval})")
    if speed.headroom_rate:
        share = speed.rate_after / speed.headroom_rate
        reached = f"you reach {share:.0%}" if share < 1 else "you are as fast, within the noise of one epoch"
        table.add_row("headroom", f"{speed.headroom_rate:.1f} samples/s with batches in memory: {reached}")
    return table


def _race_phases(speed: Speed) -> Table:
    """Both epochs to one scale, so that the gain is seen at once."""
    longest = max(*speed.phases_before.values(), *speed.phases_after.values())
    table = Table.grid(padding=(0, 1))
    table.add_row("seconds an epoch", "", Text(speed.original, "bold"), "", Text(speed.candidate, "bold"))
    for phase, before in speed.phases_before.items():
        after = speed.phases_after[phase]
        table.add_row(phase, f"{before:6.2f}", _bar(before, longest), f"{after:6.2f}", _bar(after, longest))
    return table


def print_measurement(name: str, found: "Measurement") -> None:
    """Print where a step's time goes, and what the data pipeline could gain."""
    out, steps = console(), found.steps
    milliseconds = steps.wall_s / steps.count * 1e3
    count = f"{steps.count} step{'s' * (steps.count > 1)}"
    out.print(f"\n{name}: {count} of {milliseconds:.1f} ms, {steps.samples_per_s:.1f} samples/s\n")
    out.print(_measured_phases(found.table, found.headroom))
    if found.synchronized:
        out.print("\nPhases: with a wait for the GPU after each of them. Without, its work runs beside the CPU's.")
    for note in found.notes:
        out.print(f"\n{note}")
    if found.headroom:
        out.print(f"\n{_gain(steps, found.headroom)}")


def _measured_phases(steps: "MeasuredSteps", headroom: "MeasuredSteps | None") -> Table:
    """Milliseconds a step, phase by phase."""
    table = Table.grid(padding=(0, 2))
    memory = Text("from memory", "bold") if headroom else ""
    table.add_row("", Text("ms a step", "bold"), Text("share", "bold"), "", memory)
    for number in (1, 2, 4):
        table.columns[number].justify = "right"
    for phase, seconds in [*steps.phases_s.items(), ("together", sum(steps.phases_s.values()))]:
        share = seconds / steps.wall_s
        length = "" if phase == "together" else _bar(share, 1.0)
        of_memory = ""
        if headroom:
            of_memory = f"{headroom.phases_s.get(phase, sum(headroom.phases_s.values())) / headroom.count * 1e3:.1f}"
        table.add_row(phase, f"{seconds / steps.count * 1e3:.1f}", f"{share:.0%}", length, of_memory)
    return table


def _gain(steps: "MeasuredSteps", headroom: "MeasuredSteps") -> str:
    ratio = headroom.samples_per_s / steps.samples_per_s
    says = f"Headroom: {headroom.samples_per_s:.1f} samples/s with batches from memory, {ratio:.2f} times as fast"
    fast, slow = sorted(sum(each.phases_s[phase] for phase in COMPUTING) / each.count for each in (steps, headroom))
    if slow > NOISY * fast:
        return f"{says}.\nThe computing itself took {slow / fast:.1f} times as long in one of the two: measure again."
    if ratio < WORTH_IT:
        return f"{says}.\nThe data are not what holds this script up."
    return f"{says}.\nNo data pipeline can gain more than that. Parts 3 and 5 show how to get there."


def _bar(length: float, longest: float) -> Text:
    """Return a bar in eighths of a character, so that small differences show."""
    eighths = round(min(length / longest, 1.0) * _BAR_WIDTH * 8)
    return Text(("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8]).ljust(_BAR_WIDTH), "cyan")
