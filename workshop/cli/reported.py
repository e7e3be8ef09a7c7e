"""Results as the small result that `workshop.reports` writes in the formats of others."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import typer

from workshop.cli.output import require_writable, write_file
from workshop.notebooks.cell_places import line_in_file, place
from workshop.notebooks.notebook_file import cell_of
from workshop.reports import FORMATS, Level, Report, ReportedLine, in_repository

if TYPE_CHECKING:
    from workshop.diagnosis.diagnosis import Diagnosis
    from workshop.diagnosis.findings import Finding
    from workshop.gate import GateResult
    from workshop.judge.verdict import Verdict
    from workshop.memory.memory_diagnosis import MemoryDiagnosis
    from workshop.memory.memory_findings import MemoryFinding
    from workshop.profiles.line_change import LineChange


def wanted(formats: Sequence[str] | None, as_json: bool) -> dict[str, Path | None]:
    """Return the file of each format that was asked for, None for stdout; a format is NAME or NAME=FILE.

    Raises:
        typer.BadParameter: there is no such format, or two go to stdout, of which one may be JSON.
        WorkshopError: a file has no folder.
    """
    found: dict[str, Path | None] = {}
    for each in formats or []:
        name, equals, file = each.partition("=")
        if name not in FORMATS or (equals and not file):
            raise typer.BadParameter(f"{each} is none of {', '.join(FORMATS)}, or NAME=FILE", param_hint="--format")
        found[name] = Path(file) if file else None
    if list(found.values()).count(None) + as_json > 1:
        raise typer.BadParameter("only one goes to stdout; write the others to files: NAME=FILE", param_hint="--format")
    for path in filter(None, found.values()):
        require_writable(path)
    return found


def write_reports(formats: dict[str, Path | None], make: Callable[[], Report], script: str = "") -> bool:
    """Write a report on a script in each format, and return whether one of them went to stdout."""
    if formats:
        report = replace(make(), file=in_repository(script) if Path(script).is_file() else "")
        for name, path in formats.items():
            text = FORMATS[name](report)
            write_file(path, text) if path else sys.stdout.write(text)
    return None in formats.values()


def of_diagnosis(name: str, found: "Diagnosis") -> Report:
    """Return what `measure` has found."""
    from workshop.runs.other_load import about

    steps, machine = found.measurement.steps, found.measurement.machine
    pace, crash = f"{steps.count} steps of {steps.ms_a_step:.1f} ms", found.measurement.crash
    crashed = [crash.words] if crash else []
    rough = about(machine is not None and machine.busy)
    lines = [replace(_reported(each, rough), gain=round(each.gain, 3)) for each in found.findings]
    return _of_lines(name, lines, crashed, (pace, *map(str, found.measurement.notes)))


def of_memory(name: str, found: "MemoryDiagnosis") -> Report:
    """Return what `memory` has found."""
    crash = found.measured.crash
    failed = [found.failure] if found.failure else [crash.words] if crash else []
    report = _of_lines(name, [_reported(each) for each in found.findings], failed, found.measured.notes)
    return report if found.measured.is_followed else replace(report, headline="a snapshot of torch")


def _reported(found: "Finding | MemoryFinding", rough: str = "") -> ReportedLine:
    return _at(found.file, found.line, found.cause, f"{found.costs(rough)} {found.words}")


def _at(file: str, line: int | None, cause: str, words: str) -> ReportedLine:
    """Return what was found in a line; one of a notebook's cell is that of the file on the disk."""
    name = f"{PurePath(file).parent.name}, {place(file, line)}" if cell_of(file) else ""
    file, line = line_in_file(file, line)
    return ReportedLine(in_repository(file), line, cause, words, name=name)


def _of_lines(name: str, lines: Sequence[ReportedLine], failed: list[str], says: Sequence[str]) -> Report:
    """Return the report of an instrument that names lines; an error if the script failed meanwhile."""
    level = Level.ERROR if failed else Level.WARNING if lines else Level.NOTE
    count = f"{len(lines)} finding{'s' * (len(lines) != 1)}"
    return Report(name, count, level, "measured", (*failed, *says), tuple(lines))


def of_verdict(verdict: "Verdict") -> Report:
    """Return a verdict, which names no lines."""
    from workshop.cli.result_text import sentences
    from workshop.judge.verdict import Outcome

    kinds = {
        Outcome.DONE: (Level.NOTE, "done"),
        Outcome.NOT_YET: (Level.ERROR, "too-slow"),
        Outcome.OTHER_WORK: (Level.ERROR, "other-work"),
        Outcome.UNDECIDED: (Level.WARNING, "undecided"),
        Outcome.BROKEN: (Level.ERROR, "crashed"),
    }
    return Report(verdict.subject, verdict.headline, *kinds[verdict.outcome], sentences(verdict), ())


def of_gate(found: "GateResult") -> Report:
    """Return what `compare --base` has found, with the lines that grew."""
    whole = of_verdict(found.verdict)
    lines = []
    for each in found.lines:
        words = (
            f"{each.before_ms:.2f} -> {each.after_ms:.2f} ms a step since {found.base}, in {each.function}: {each.text}"
        )
        lines.append(_at(str(found.tree / each.file), each.line, "slower-line", words))
    if not lines and whole.level != Level.NOTE:
        file = in_repository(str(found.tree / found.script))
        lines = [ReportedLine(file, None, whole.cause, " ".join(map(str, found.verdict.reasons)))]
    about = (str(found.about_lines),) if found.about_lines else ()
    sentences = (*whole.sentences, *about)
    return Report(str(found.script), whole.headline, whole.level, whole.cause, sentences, tuple(lines))


def of_line_change(name: str, change: "LineChange") -> Report:
    """Return the lines of a difference that take longer than before, and are no noise.

    The time of a line includes the functions that it calls; what they grew by is theirs. Of the lines that grew by a
    millisecond at least, and by a tenth of what the one did that grew most, ten are reported: GitHub shows no more
    annotations of a step.
    """
    from workshop.cli.line_text import busy_runs, compared, other_length, seconds

    grown = [
        (change.own_growth_s(function, row), function, row)
        for function in change.functions
        for row in function.rows
        if row.after and not (row.is_noise or row.as_untouched or row.is_recursive)
    ]
    grown.sort(key=lambda each: each[0], reverse=True)
    least_s = max(0.1 * grown[0][0], 1e-3) if grown else 0.0
    lines = []
    for _, function, row in [each for each in grown if each[0] >= least_s][:10]:
        assert row.after
        words = f"{seconds(row.before_s)} -> {seconds(row.after_s)} in {function.title}: {row.after.text}"
        lines.append(_at(str(function.after[0].file), row.after.first, "slower-line", words))
    count = f"{len(lines)} line{'s' * (len(lines) != 1)} slower"
    sentences = (compared(change), *other_length(change), *busy_runs(change))
    return Report(name, count, Level.WARNING if lines else Level.NOTE, "lines", sentences, tuple(lines))
