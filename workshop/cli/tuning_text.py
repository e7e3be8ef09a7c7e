"""What was found about the settings of a DataLoader, as a person reads it in a terminal of 80 columns."""

import math
from pathlib import Path

from rich.table import Table
from rich.text import Text

from workshop.cli.output import commands, console, filled, print_diff
from workshop.cli.result_text import bar, filled_crash
from workshop.judge.verdict import Outcome, Verdict
from workshop.runs.other_load import about
from workshop.tuning.memory_room import size
from workshop.tuning.setting_words import in_words
from workshop.tuning.tried_setting import TriedSetting
from workshop.tuning.tuning_result import Advice, Tuning

LITTLE = 0.05
"""A smaller share of data wait is not worth a sentence."""

_HEADLINES = {
    Advice.TAKE: ("take", "bold green"),
    Advice.LEAVE: ("leave it", "bold green"),
    Advice.UNDECIDED: ("undecided", "bold yellow"),
    Advice.NOT_TUNED: ("not tuned", "bold yellow"),
}


def print_tuning(name: str, found: Tuning, kept: Path | None, again: str, why_not: str = "") -> None:
    """Print what was tried, the settings to take, the edit, and its proof.

    Args:
        name: the script's.
        found: the result.
        kept: where the file was kept that has been edited; None if none was.
        again: the command that makes the edit.
        why_not: why it was not made, although it was to be; empty if it was not to be, or was.
    """
    out, rough = console(), about(found.machine is not None and found.machine.busy)
    if found.steps:
        rates = f"{found.steps.ms_a_step:.1f} ms, {rough}{found.steps.samples_per_s * found.ranks:.1f} samples/s"
        out.print(Text(f"\n{name}: {found.steps.count} steps of {rough}{rates} as it is\n"))
    if found.crash:
        out.print(Text(f"{filled_crash(found.crash)}\n", "bold red"))
    if found.tried:
        out.print(_table(found, rough))
        for each in (each for each in found.tried if each.why_not):
            out.print(Text(filled(f"{in_words(each.settings, each.settings)}: {each.why_not}.")))
        out.print()
    for note in [*([str(found.machine)] if rough else []), *found.notes]:
        out.print(Text(f"{filled(note)}\n"))
    word, style = _HEADLINES[found.advice]
    if found.advice is Advice.TAKE and found.taken and found.present:
        word = f"take {in_words(found.taken, found.present)}"
    out.print(Text(f"{name}: {word}", style))
    out.print(Text(filled(f"- {found.reason}")))
    if found.advice is Advice.UNDECIDED:
        how = " Try it again on a quieter machine, or with a longer --budget, such as 10m." * found.is_noise
        out.print(Text(filled(f"- Nothing was edited.{how}")))
    if found.slowest:
        out.print(Text(filled(f"- {found.slowest.words}")))
    if found.limits or found.waits_share >= LITTLE:
        out.print(Text(filled(_limits(found, rough))))
    if found.verdict:
        out.print(Text(filled(_proof(found.verdict))))
    elif found.why_no_proof:
        out.print(Text(filled(f"- Not proven: {found.why_no_proof}")))
    if found.advice is Advice.TAKE:
        _print_edit(found, kept, again, why_not)


def _table(found: Tuning, rough: str) -> Table:
    """A row for each setting that was tried, fewest workers first, and one for batches from memory."""
    table = Table.grid(padding=(0, 1))
    for name in ("workers", "prefetch", f"{rough}samples/s", "", "memory", "start-up", ""):
        table.add_column(name, justify="right" if name else "left")
    table.columns[6].overflow = "fold"
    table.add_row(*(Text(str(column.header), "bold") for column in table.columns))
    ceiling = found.headroom.samples_per_s * found.ranks if found.headroom else 0.0
    known = [each for each in found.tried if each.blocks_ms]
    top = max([ceiling, *(each.rate * found.ranks for each in known)])
    for each in sorted(found.tried, key=lambda each: (each.settings.workers, each.settings.prefetch_factor)):
        table.add_row(*_row(each, found, top), Text(_what(each, found)))
    if ceiling:  # where a setting reached more, the machine was busier meanwhile
        limit = f"{'≥ ' * (ceiling < top)}{top:.1f}"
        table.add_row("", "", limit, _short_bar(top, top), "", "", Text("from memory", "dim"))
    return table


def _row(each: TriedSetting, found: Tuning, top: float) -> list[str | Text]:
    settings = each.settings
    names = [str(settings.workers), str(settings.prefetch_factor) if settings.workers else "-"]
    if not each.blocks_ms:
        return [*names, "-", "", "", ""]
    margin = each.rate_margin * found.ranks
    interval = "" if math.isnan(margin) else f" ±{margin:.1f}" if margin < each.rate * found.ranks else ""
    memory = size(each.memory_bytes) if each.memory_bytes else ""
    start = f"{each.first_batch_s:.1f} s" if settings.workers else "-"
    rate = each.rate * found.ranks
    return [*names, f"{rate:.1f}{interval}", _short_bar(rate, top), memory, start]


def _what(each: TriedSetting, found: Tuning) -> str:
    if each.why_not:
        return "no: see below"
    present = found.present
    more = in_words(each.settings, present).split(", ")[1:] if present else []
    more = [one for one in more if not one.startswith(("prefetch", "persistent"))]
    return "; ".join([*more, each.became])


def _short_bar(rate: float, top: float) -> Text:
    drawn = bar(rate / top / 2 if top else 0.0, 1.0)
    drawn.truncate(10)
    return drawn


def _limits(found: Tuning, rough: str) -> str:
    """What limits the script then, in the words of `measure`."""
    waits = f"{rough}{found.waits_share:.0%} of a step still waits for data" if found.waits_share >= LITTLE else ""
    if not found.limits:
        return f"- {waits}."
    first = found.limits[0]
    place = f", line {first.line} of {Path(first.file).name} in {first.function}" if first.file else ""
    says = f"{'Then ' if found.taken else ''}{first.cause} limits it{place}: {first.words}"
    return f"- {f'{waits}. '.capitalize() if waits else ''}{says}"


def _proof(verdict: Verdict) -> str:
    says = "; ".join(map(str, verdict.reasons))
    if verdict.outcome is Outcome.DONE and verdict.speed:
        return f"- Proven: {says}. Over whole epochs, the speedup may be {verdict.speed.may_be}."
    if verdict.is_same_work:
        return f"- Proven to do the same work; how much faster, the judge cannot tell: {says}"
    return f"- The judge says {verdict.outcome.value}: {says}"


def _print_edit(found: Tuning, kept: Path | None, again: str, why_not: str) -> None:
    out = console()
    if found.why_no_edit:
        out.print(Text(f"\n{filled(found.why_no_edit)}"))
    if not found.edit:
        return
    out.print()
    print_diff(found.edit.diff)
    if "persistent_workers" in found.edit.arguments:
        out.print(Text(f"\n{filled(KEPT)}"))
    if kept:
        out.print(Text(f"\n{filled(f'{found.edit.path.name} is edited. Yours is kept as {kept.name}.')}"))
    else:
        if why_not:
            out.print(Text(f"\n{filled(f'{found.edit.path.name} is not edited: {why_not}')}"))
        out.print(
            Text(filled("\nMake the edit by hand, or search again and have it made, with a copy of the file kept:"))
        )
        out.print(Text(f"\n{commands(again)}"))


KEPT = "Workers that are kept do not see what the script changes in the dataset later, such as an epoch counter."
