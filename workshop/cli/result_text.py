"""A verdict as a person reads it, in a terminal of 80 columns, with or without colour."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from workshop.cli.output import commands, console, filled
from workshop.judge.verdict import Outcome, Speed, Verdict
from workshop.probe.phases import Phase
from workshop.runs.other_load import about
from workshop.runs.script_error import ScriptError, shorten

_BAR_WIDTH = 20
_STYLES = {
    Outcome.DONE: "bold green",
    Outcome.NOT_YET: "bold yellow",
    Outcome.UNDECIDED: "bold yellow",
    Outcome.OTHER_WORK: "bold red",
    Outcome.BROKEN: "bold red",
}


def print_verdict(verdict: Verdict) -> None:
    """Print the outcome, why, the figures, and what to look at next."""
    out = console()
    out.print(Text(f"\n{verdict.subject}: {verdict.headline}", _STYLES[verdict.outcome]))
    for each in sentences(verdict):
        out.print(Text(f"- {each}"))
    if verdict.output:
        out.print(Text(f"\n{verdict.output}", "dim"))
    if verdict.speed:
        rough = about(verdict.machine is not None and verdict.machine.busy)
        out.print("", _figures(verdict.speed, rough), "", _race_phases(verdict.speed), sep="\n")
    if verdict.shares:
        out.print("", _shares(verdict.shares), sep="\n")
    if verdict.next.words:
        out.print(Text(f"\nNext: {verdict.next}"))
    elif verdict.next.commands:
        out.print(Text(f"\nNext:\n\n{commands(*verdict.next.commands)}"))


def filled_crash(error: ScriptError) -> str:
    """Return that a script has crashed while it was measured, and its own words, of which no line is filled."""
    return f"{filled(error.words)}\n{shorten(error.output)}".strip()


def sentences(verdict: Verdict) -> tuple[str, ...]:
    """Return why a verdict is as it is and, where it rests on times, that the machine was busy, if it was."""
    rests_on_times = verdict.speed or verdict.outcome is Outcome.UNDECIDED
    busy = verdict.machine and verdict.machine.busy and rests_on_times
    unlooked = [str(verdict.not_looked_at)] if verdict.not_looked_at else []
    return (*map(str, verdict.reasons), *unlooked, *[str(verdict.machine)] * bool(busy))


def _shares(shares: dict[str, float]) -> Table:
    table = Table.grid(padding=(0, 1))
    for name, share in shares.items():
        table.add_row(name, f"{share:5.0%}", bar(share, 1.0))
    return table


def _figures(speed: Speed, rough: str) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row(speed.original, f"{speed.rate_before:.1f} samples/s")
    found = f"speedup {speed.text(speed.ratio)}x, the mean of {speed.pairs} pairs"
    table.add_row(speed.candidate, f"{speed.rate_after:.1f} samples/s, {found}")
    table.add_row("95 % interval", speed.may_be)
    if speed.headroom_rate:
        reached = f"you reach {rough}{speed.rate_after / speed.headroom_rate:.0%}"
        table.add_row("headroom", f"{rough}{speed.headroom_rate:.1f} samples/s with batches in memory: {reached}")
    return table


def _race_phases(speed: Speed) -> Table:
    """Both epochs to one scale, so that the gain is seen at once."""
    longest = max(*speed.phases_before.values(), *speed.phases_after.values())
    table = Table.grid(padding=(0, 1))
    table.add_row(f"s for {speed.stretch}", "", Text(speed.original, "bold"), "", Text(speed.candidate, "bold"))
    for phase, before in speed.phases_before.items():
        after = speed.phases_after[phase]
        if phase == Phase.VALIDATION and not before + after:
            continue
        table.add_row(phase, f"{before:6.2f}", bar(before, longest), f"{after:6.2f}", bar(after, longest))
    return table


def figures(*headings: str, right: Iterable[int], padding: int = 2) -> Table:
    """Return a table without rows; the numbers of its columns of figures, which are to the right, are `right`."""
    table = Table.grid(padding=(0, padding))
    table.add_row(*(Text(each, "bold") for each in headings))
    for number in right:
        table.columns[number].justify = "right"
    return table


def bar(length: float, longest: float) -> Text:
    """Return a bar in eighths of a character, so that small differences show."""
    eighths = round(min(length / longest, 1.0) * _BAR_WIDTH * 8)
    return Text(("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8]).ljust(_BAR_WIDTH), "cyan")
