"""What was found about the settings of a DataLoader, as a person reads it in a terminal of 80 columns."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.table import Table
from rich.text import Text

from workshop.cli.output import commands, console, filled, print_diff
from workshop.cli.result_text import filled_crash
from workshop.cli.terminal_tables import bar, table
from workshop.judge.verdict import Outcome, Verdict
from workshop.notebooks.cell_places import line_of
from workshop.probe.loader_settings import COLUMNS, cells
from workshop.tuning.script_memory import size
from workshop.tuning.tried_settings import TriedSetting
from workshop.tuning.tuning_result import Advice, Tuning

KEPT = "Workers that are kept do not see what the script changes in the dataset later, such as an epoch counter."

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
    out, rough = console(), found.about
    if found.steps:
        rates = f"{found.steps.ms_a_step:.1f} ms, {rough}{found.steps.samples_per_s * found.ranks:.1f} samples/s"
        out.print(Text(f"\n{name}: {found.steps.count} steps of {rough}{rates} as it is\n"))
    if found.crash:
        out.print(Text(f"{filled_crash(found.crash)}\n", "bold red"))
    if found.tried:
        out.print(_table(found, rough, out.width))
        for tried in (tried for tried in found.tried if tried.why_not):
            out.print(Text(filled(f"{tried.settings.in_words(tried.settings)}: {tried.why_not}.")))
        out.print()
    for note in [*([str(found.machine)] if rough else []), *found.notes]:
        out.print(Text(f"{filled(note)}\n"))
    word, style = _HEADLINES[found.advice]
    if found.taken and found.present:
        word = f"take {found.taken.in_words(found.present)}"
    out.print(Text(f"{name}: {word}", style))
    for each in _says(found):
        out.print(Text(filled(f"- {each}")))
    if found.advice is Advice.TAKE:
        _print_edit(found, kept, again, why_not)


def _says(found: Tuning) -> Iterator[str]:
    """Why, what takes most of the loading, what limits the script then, and whether it is proven."""
    yield found.says
    if found.advice is Advice.UNDECIDED:
        how = " Try it again on a quieter machine, or with a longer --budget, such as 10m." * found.is_noise
        yield f"Nothing was edited.{how}"
    if found.slowest:
        yield found.slowest.words
    if limits := _limits(found):
        yield limits
    if found.verdict:
        yield _proof(found.verdict)
    elif found.why_no_proof:
        yield f"Not proven: {found.why_no_proof}"


def _table(found: Tuning, rough: str, columns: int) -> Table:
    """A row for each setting that was tried, the cheapest first, and one for batches from memory.

    The bars leave as many columns of the terminal as the longest word needs: code is not broken within a word.
    """
    headings = [*(setting.column for setting in COLUMNS.values()), f"{rough}samples/s", "", "memory", "start-up", ""]
    tried = sorted(found.tried, key=lambda each: [getattr(each.settings, name) for name in COLUMNS])
    rates = [each.rate * found.ranks if each.blocks_ms else 0.0 for each in tried]
    rows: list[list[str | Text]] = [_row(each, found) for each in tried]
    ceiling = found.headroom.samples_per_s * found.ranks if found.headroom else 0.0
    top = max([ceiling, *rates])
    if ceiling:  # where a setting reached more, the machine was busier meanwhile
        limit = f"{'≥ ' * (ceiling < top)}{top:.1f}"
        rows.append([*[""] * len(COLUMNS), limit, "", "", "", Text("from memory", "dim")])
    taken = sum(max(map(len, column)) + 1 for column in list(zip(headings, *rows, strict=True))[:-1])
    longest_word = max((len(word) for *_, says in rows for word in str(says).split()), default=0)
    width = max(min(10, columns - taken - longest_word), 0)
    for row, rate in zip(rows, [*rates, top], strict=False):
        if rate:
            row[len(COLUMNS) + 1] = drawn = bar(rate, top, width)
            drawn.truncate(width)
    made = table(headings, rows, right=[at for at, name in enumerate(headings) if name], padding=1)
    for column in made.columns[:-1]:
        column.no_wrap = True
    made.columns[-1].overflow = "fold"
    return made


def _row(tried: TriedSetting, found: Tuning) -> list[str | Text]:
    """The cells of a setting, that of its bar empty; the last one says what else the settings are, and what became."""
    settings = cells(vars(tried.settings), "-")
    differ = tried.settings.sources(replace(found.present or tried.settings, persistent=False))
    says = "; ".join([*(text for name, text in differ.items() if name not in COLUMNS), tried.outcome])
    says = "no: see below" if tried.why_not else says
    if not tried.blocks_ms:
        return [*settings, "-", "", "", "", says]
    rate, margin = tried.rate * found.ranks, tried.rate_margin * found.ranks
    interval = "" if math.isnan(margin) else f" ±{margin:.1f}" if margin < rate else ""
    memory = size(tried.memory_bytes) if tried.memory_bytes else ""
    start = f"{tried.first_batch_s:.1f} s" if tried.settings.workers else "-"
    return [*settings, f"{rate:.1f}{interval}", "", memory, start, says]


def _limits(found: Tuning) -> str:
    """What limits the script then, in the words of `measure`; of the wait for data, less is not worth a sentence."""
    share = f"{found.about}{found.waits_share:.0%}"
    waits = f"{share} of a step still waits for data. " if found.waits_share >= 0.05 else ""
    if not found.limits:
        return waits.strip()
    first = found.limits[0]
    place = f", {line_of(first.file, first.line or 0)} in {first.function}" if first.file else ""
    return f"{waits.capitalize()}{'Then ' if found.taken else ''}{first.cause} limits it{place}: {first.words}"


def _proof(verdict: Verdict) -> str:
    says = "; ".join(map(str, verdict.reasons))
    if verdict.outcome is Outcome.DONE and verdict.speed:
        return f"Proven: {says}. Over whole epochs, the speedup may be {verdict.speed.may_be}."
    if verdict.is_same_work:
        return f"Proven to do the same work; how much faster, the judge cannot tell: {says}"
    return f"The judge says {verdict.outcome.value}: {says}"


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
        out.print(Text(f"\n{filled(f'{found.edit.file.name} is edited. Yours is kept as {kept.name}.')}"))
        return
    if why_not:
        out.print(Text(f"\n{filled(f'{found.edit.file.name} is not edited: {why_not}')}"))
    out.print(Text(filled("Make the edit by hand, or search again and have it made, with a copy of the file kept:")))
    out.print(Text(f"\n{commands(again)}"))
