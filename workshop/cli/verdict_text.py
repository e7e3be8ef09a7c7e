"""A verdict as a person reads it, in a terminal of 80 columns, with or without colour."""

from rich.table import Table
from rich.text import Text

from workshop.cli.output import bar, console
from workshop.judge.verdict import Outcome, Speed, Verdict

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
    out.print(Text(f"\n{verdict.subject}: {verdict.outcome.value}", _STYLES[verdict.outcome]))
    for reason in verdict.reasons:
        out.print(Text(f"- {reason}"))
    if verdict.output:
        out.print(Text(f"\n{verdict.output}", "dim"))
    if verdict.speed:
        out.print()
        out.print(_figures(verdict.speed))
        out.print()
        out.print(_phases(verdict.speed))
    if verdict.shares:
        out.print()
        out.print(_shares(verdict.shares))
    if verdict.next:
        out.print(Text(f"\nNext: {verdict.next}"))


def _shares(shares: dict[str, float]) -> Table:
    table = Table.grid(padding=(0, 1))
    for name, share in shares.items():
        table.add_row(name, f"{share:5.0%}", bar(share, 1.0))
    return table


def _figures(speed: Speed) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row(speed.original, f"{speed.rate_before:.1f} samples/s")
    interval = f"95 %: {speed.low:.2f} to {speed.high:.2f}, {speed.pairs} pairs"
    table.add_row("yours", f"{speed.rate_after:.1f} samples/s, {speed.ratio:.2f} times as fast ({interval})")
    if speed.headroom_rate:
        share = speed.rate_after / speed.headroom_rate
        table.add_row("headroom", f"{speed.headroom_rate:.1f} samples/s with batches in memory: you reach {share:.0%}")
    return table


def _phases(speed: Speed) -> Table:
    """Both epochs to one scale, so that the gain is seen at once."""
    longest = max(*speed.phases_before.values(), *speed.phases_after.values())
    table = Table.grid(padding=(0, 1))
    table.add_row("seconds an epoch", "", Text(speed.original, "bold"), "", Text("yours", "bold"))
    for phase, before in speed.phases_before.items():
        after = speed.phases_after[phase]
        table.add_row(phase, f"{before:6.2f}", bar(before, longest), f"{after:6.2f}", bar(after, longest))
    return table
