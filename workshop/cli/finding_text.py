"""Findings and changes as a person reads them in a terminal of 80 columns: those of time and those of memory."""

import linecache
import os
import textwrap
from collections.abc import Sequence

from rich.text import Text

from workshop.cli.output import console, filled
from workshop.cli.terminal_tables import table
from workshop.diagnosis.change import Change, Measure
from workshop.diagnosis.findings import Finding
from workshop.memory.memory_findings import MemoryFinding
from workshop.notebooks.cell_places import place
from workshop.notebooks.notebook_file import cell_of
from workshop.terminal import cut


def print_findings(findings: Sequence[Finding | MemoryFinding], rough: str, options: str) -> None:
    """Print the first five findings; `rough` is of `about`, and `options` stands above those that are no faults."""
    out, told = console(), False
    for number, finding in enumerate(findings[:5], start=1):
        if finding.is_option and not told:
            out.print(f"\n{options}")
            told = True
        out.print(_finding(number, finding, rough))


def _finding(number: int, finding: Finding | MemoryFinding, rough: str) -> Text:
    """A finding: its cause and place, the line itself, what it costs and what to do."""
    text = Text(f"\n{number}. {finding.cause}", "bold")
    if finding.file:
        path = min(finding.file, os.path.relpath(finding.file), key=len)
        where = place(finding.file if cell_of(finding.file) else path, finding.line, path=True)
        where += f", in {finding.function}" if finding.line else ""
        process = {"training": "", "worker": ", in the workers"}.get(finding.process, f", in {finding.process}")
        text.append(f"  {where}{process}", "not bold")
        if source := linecache.getline(finding.file, finding.line or 0).strip():
            text.append(f"\n       {shortened(source)}", "not bold cyan")
    text.append(f"\n{filled(f'{finding.costs(rough)} {finding.words}', indent='   ')}", "not bold")
    return text


def print_changes(changes: Sequence[Change]) -> None:
    """Print what has changed since an earlier measurement, in fourteen rows at most."""
    is_time = changes[0].measure is Measure.MS
    rows: list[Sequence[str | Text]] = []
    for each in changes[:14]:
        sizes = [f"{size:.1f}" if is_time else f"{size / 2**20:.2f}" for size in (each.before, each.after)]
        verdict = Text("within the noise")
        if each.more_than_noise:
            verdict = Text("less", "green") if each.difference < 0 else Text("more", "red")
        rows.append((cut(each.name, 42), *sizes, verdict))
    console().print("", table(("ms a step" if is_time else "MiB", "before", "now", ""), rows, right=(1, 2)), sep="\n")


def shortened(source: str) -> str:
    """Return a line of source that fits into a line of the terminal."""
    return textwrap.shorten(source, 72, placeholder=" …")
