"""A verdict as a person reads it, in a terminal of 80 columns, with or without colour."""

from rich.table import Table
from rich.text import Text

from workshop.cli.output import commands, console, filled
from workshop.cli.terminal_tables import bar, table
from workshop.judge.verdict import Outcome, Speed, Verdict
from workshop.probe.phases import Phase
from workshop.runs.other_load import about
from workshop.runs.script_error import ScriptError, shorten

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
        rows = ((name, f"{share:5.0%}", bar(share, 1.0)) for name, share in verdict.shares.items())
        out.print("", table((), rows, padding=1), sep="\n")
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


def _figures(speed: Speed, rough: str) -> Table:
    found = f"speedup {speed.text(speed.ratio)}x, the mean of {speed.pairs} pairs"
    rows = [
        (speed.original, f"{speed.rate_before:.1f} samples/s"),
        (speed.candidate, f"{speed.rate_after:.1f} samples/s, {found}"),
        ("95 % interval", speed.may_be),
    ]
    if speed.headroom_rate:
        reached = f"you reach {rough}{speed.rate_after / speed.headroom_rate:.0%}"
        rows.append(("headroom", f"{rough}{speed.headroom_rate:.1f} samples/s with batches in memory: {reached}"))
    return table((), rows)


def _race_phases(speed: Speed) -> Table:
    """Both epochs to one scale, so that the gain is seen at once."""
    longest = max(*speed.phases_before.values(), *speed.phases_after.values())
    both = {phase: (before, speed.phases_after[phase]) for phase, before in speed.phases_before.items()}
    rows = (
        (phase, f"{before:6.2f}", bar(before, longest), f"{after:6.2f}", bar(after, longest))
        for phase, (before, after) in both.items()
        if phase != Phase.VALIDATION or before + after
    )
    return table((f"s for {speed.stretch}", "", speed.original, "", speed.candidate), rows, padding=1)
