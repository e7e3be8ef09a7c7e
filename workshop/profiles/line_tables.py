"""The tables of a line profile: a function each, with a row for each statement that ran."""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from workshop.errors import WorkshopError
from workshop.profiles.line_profile import Function, LineProfile
from workshop.profiles.statements import Row, Source
from workshop.terminal import some_of

TOGETHER = "all processes"


@dataclass(frozen=True)
class LineTable:
    """A function and the statements of it that ran."""

    function: Function
    rows: list[Row]
    source: Source
    """The file that the function is in."""
    whole_s: float
    """The time of the function; of one that calls itself, that of the outermost level."""

    @cached_property
    def imports_s(self) -> float:
        """The time in its imports."""
        return sum(row.seconds for row in self.rows if row.is_import)

    @property
    def seconds(self) -> float:
        """The time in all other lines of the function."""
        return self.whole_s - self.imports_s

    @property
    def is_module(self) -> bool:
        """Whether these are the lines of a module outside of all functions."""
        return self.function.name == "<module>"


def tables(
    profile: LineProfile, *, together: bool = True, by_process: bool = False, name: str | None = None
) -> dict[str, list[LineTable]]:
    """Return the tables of all processes together, or of each, by its name; the function with most time comes first.

    Imports do not count for that; nor do, in a module's body, the calls of functions that have a table.

    Args:
        profile: the profile.
        together: whether all processes together are a group, called `TOGETHER`.
        by_process: whether each process is a group.
        name: the name of a function, qualified or not; None for all that ran.

    Raises:
        WorkshopError: there is no such function, or processes cannot be told apart.
    """
    groups: dict[str, tuple[Function, ...]] = {TOGETHER: profile.functions} if together else {}
    if by_process:
        if not profile.processes:
            raise WorkshopError(f"{profile.path} does not tell processes apart: kernprof made it, not `record lines`")
        groups |= profile.processes
    source = cache(partial(source_of, profile))
    found = {}
    for group, functions in groups.items():
        ran = [(function, source(function.file)) for function in functions if function.lines]
        of_group = [LineTable(each, text.rows(each), text, each.seconds) for each, text in ran]
        wanted = (table for table in of_group if name is None or table.function.is_called(name))
        found[group] = _hottest_first(_outermost(table, of_group) for table in wanted)
    if name and not any(found.values()):
        known = some_of(sorted({function.name for function in profile.functions if function.lines})) or "none"
        raise WorkshopError(f"no function {name} ran in {profile.path}; those that did: {known}")
    return found


def _outermost(table: LineTable, tables: Iterable[LineTable]) -> LineTable:
    """Return the table of a function that calls itself with the time of the outermost level; others as they are.

    What is counted has each level of it. The lines of other functions that call it take as long as the outermost level,
    or longer; where none is known, its lines that do not call it have all that it did.
    """
    if not any(row.is_recursive for row in table.rows):
        return table
    call = calls_of([table.function])
    callers = (row for each in tables if each is not table for row in each.rows if call.search(row.text))
    around_s = sum(row.seconds for row in callers if not row.is_recursive)
    own_s = sum(row.seconds for row in table.rows if not row.is_recursive)
    whole_s = max(own_s, min(table.whole_s, around_s or own_s or table.whole_s))
    rows = [replace(row, share=0.0 if row.is_recursive else row.seconds / (whole_s or 1.0)) for row in table.rows]
    return replace(table, rows=rows, whole_s=whole_s)


def _hottest_first(found: Iterable[LineTable]) -> list[LineTable]:
    tables = list(found)
    calls = calls_of(table.function for table in tables)

    def seconds(table: LineTable) -> float:
        called = (row.seconds for row in table.rows if calls.search(row.text)) if table.is_module else ()
        return table.seconds - sum(called)

    return sorted(tables, key=seconds, reverse=True)


def calls_of(functions: Iterable[Function]) -> re.Pattern[str]:
    """Return what finds a call of one of some functions in a line."""
    names = {function.name.rpartition(".")[2] for function in functions}
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\(")


def source_of(profile: LineProfile, file: Path) -> Source:
    """Return a file of a profile, cut into statements."""
    return Source(profile.source(file), profile.recorded.python if profile.recorded else sys.version_info[:2])


def notes(profile: LineProfile, tables: Mapping[str, Iterable[LineTable]]) -> list[str]:
    """Return what might mislead in the tables of a profile."""
    machine = profile.recorded and profile.recorded.machine
    found = [str(machine)] if machine and machine.busy else []
    for file in sorted({function.file for function in profile.functions if function.lines}):
        if profile.source(file) is None:
            found.append(f"the source of {file} is gone, and the profile does not contain it: lines have numbers only")
        elif not profile.recorded and file.stat().st_mtime > profile.path.stat().st_mtime:
            found.append(
                f"{file.name} was saved after {profile.path.name} was written: figures may stand beside wrong lines; "
                "`workshop record lines` keeps the source"
            )
    found += _longer_than_the_run(profile, tables)
    lines = [line for function in profile.functions for line in function.lines]
    # Lines of less than 1 µs a hit, the counting included, and a tenth of all time.
    quick_s = sum(line.seconds for line in lines if line.hits and line.seconds / line.hits < 1e-6)
    if quick_s > 0.1 * sum(line.seconds for line in lines):
        found.append(
            "some lines ran so often, and for so short a time, that counting them took most of their time: loops look "
            "slower than they are. `workshop measure` takes samples instead, and ranks them as they run uncounted"
        )
    if not lines:
        found.append(f"no line of {profile.path} ran")
    return found


def _longer_than_the_run(profile: LineProfile, tables: Mapping[str, Iterable[LineTable]]) -> list[str]:
    """Say which functions call themselves, or have more time than there was, and why."""
    every = {table.function: (table, group) for group, of_group in tables.items() for table in of_group}
    recursive = sorted(
        {each.function.title for each, _ in every.values() if any(row.is_recursive for row in each.rows)}
    )
    found = []
    if recursive:
        found.append(
            f"{', '.join(recursive)} {'calls itself' if len(recursive) == 1 else 'call themselves'}: a line that does "
            "so has the time of every level again. It is marked as recursive, and counts in no sum"
        )
    if profile.recorded:
        for each, group in every.values():
            there_s = profile.recorded.seconds * (len(profile.processes) if group == TOGETHER else 1)
            if each.whole_s > there_s:
                found.append(
                    f"{each.function.title} has {each.whole_s:.3g} s, and the run took {there_s:.3g} s: it ran in "
                    "several threads, or was called within itself by another function, and each time counts"
                )
    return found


def as_dict(profile: LineProfile, found: Mapping[str, list[LineTable]]) -> dict[str, Any]:
    """Return the tables as plain values."""
    functions = [
        {
            "process": process if process != TOGETHER else None,
            "file": str(table.function.file),
            "function": table.function.name,
            "line": table.function.first_line,
            "seconds": table.whole_s,
            "rows": [
                {
                    "line": row.first,
                    "last_line": row.last,
                    "hits": row.hits,
                    "seconds": row.seconds,
                    "share": row.share,
                    "recursive": row.is_recursive,
                    "text": row.text,
                }
                for row in table.rows
            ],
        }
        for process, tables_of in found.items()
        for table in tables_of
    ]
    machine = profile.recorded and profile.recorded.machine
    return {"profile": str(profile.path), "machine": machine and machine.as_dict(), "functions": functions}
