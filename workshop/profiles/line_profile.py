"""Reads and writes line profiles: the hits and the time of each line of the functions that were profiled.

A profile is a file of line_profiler: a pickle of its `LineStats`, which `python -m line_profiler` prints. What
`workshop record lines` adds to it is an attribute of that object: the source as it ran, and the counts by process.
"""

import io
import pickle
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import decode_source
from pathlib import Path
from types import CodeType
from typing import Any

from line_profiler import LineStats

from workshop.errors import WorkshopError
from workshop.file_kind import LINE_PROFILE, kind_of, wrong_kind
from workshop.line_counts import Timings
from workshop.notebooks.cell_places import place
from workshop.runs.other_load import OtherLoad

MAKE_ONE = "make one with workshop record lines"

STATS = ("line_profiler.line_profiler", "line_profiler._line_profiler", "_line_profiler")
"""The modules in which line_profiler has had its `LineStats`: since 5, before, and before 3."""


@dataclass(frozen=True)
class Line:
    """A line that ran."""

    number: int
    hits: int
    seconds: float


@dataclass(frozen=True)
class Function:
    """A function that was profiled."""

    file: Path
    name: str
    """The qualified name: "CustomSlowDataset.__getitem__"."""

    first_line: int
    """The line number of the first decorator, or of the `def` if there is none."""

    lines: tuple[Line, ...]
    """The lines that ran, in the order of the file."""

    @cached_property
    def seconds(self) -> float:
        """The time in all lines of the function."""
        return sum(line.seconds for line in self.lines)

    @cached_property
    def hottest(self) -> Line | None:
        """The line that took longest; None if no line ran."""
        return max(self.lines, key=lambda line: line.seconds, default=None)

    @property
    def title(self) -> str:
        """The name as a person knows it: for the lines outside of all functions, that of the file."""
        return place(str(self.file), None) if self.name == "<module>" else self.name

    def is_called(self, name: str) -> bool:
        """Return whether this is the function's name, qualified or not."""
        return name in (self.name, self.name.rpartition(".")[2], self.title)

    def seconds_in(self, number: int) -> float:
        """Return the seconds that a line took; 0 for a line that never ran."""
        return sum(line.seconds for line in self.lines if line.number == number)

    def share(self, number: int) -> float:
        """Return a line's share of the function's time, from 0 to 1; 0 for a line that never ran."""
        return self.seconds_in(number) / (self.seconds or 1.0)


@dataclass(frozen=True)
class LineProfile:
    """A profile of all functions that were profiled in a run."""

    path: Path
    """The file it was read from."""
    functions: tuple[Function, ...]
    """The functions, with the hits and times of all processes together."""
    recorded: "Recorded | None" = None
    """What only `workshop record lines` knows; None for a profile of kernprof."""

    @property
    def processes(self) -> Mapping[str, tuple[Function, ...]]:
        """The functions of each process, by its name; empty where they are not told apart, as by kernprof."""
        return self.recorded.processes if self.recorded else {}

    def find(self, script: Path, name: str) -> Function | None:
        """Return the function of a script with this name, qualified or not; None if the profile does not contain it."""
        found = (
            function for function in self.functions if function.is_called(name) and same_file(function.file, script)
        )
        return next(found, None)

    def counted(self, name: str) -> bool:
        """Return whether the lines of a function of this name were counted, if it ran; of kernprof, if it is known."""
        if self.recorded:
            return not self.recorded.only or bool({name, name.rpartition(".")[2]} & set(self.recorded.only))
        return any(function.name == name for function in self.functions)

    def source(self, file: Path) -> str | None:
        """Return the source of a file: as it ran, or else as it is now; None if it is gone."""
        if self.recorded and (kept := self.recorded.sources.get(str(file))) is not None:
            return kept
        return source_now(file)


@dataclass(frozen=True)
class Recorded:
    """What `workshop record lines` keeps of a run."""

    command: tuple[str, ...]
    sources: Mapping[str, str]
    """The source of each file as it ran, by its path."""
    processes: Mapping[str, tuple[Function, ...]]
    """The functions of each process, by its name: "main process", "worker 0", "rank 1 worker 0"."""
    seconds: float
    """The time from the first process's start to the end of the run."""
    python: tuple[int, ...]
    """The version of Python, such as (3, 11)."""
    only: tuple[str, ...] = ()
    """The functions that were counted, if not all."""
    machine: OtherLoad | None = None
    """What other programs used of the cores meanwhile; None for a profile of an older version."""


class _ForeignError(pickle.UnpicklingError):
    """A pickle holds something else."""


class _Stats(pickle.Unpickler):
    """Reads line_profiler's statistics, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "LineStats" and module in STATS:
            return LineStats
        raise _ForeignError(f"it holds a {module}.{name}")


def read(path: Path) -> LineProfile:
    """Read a line profile, of kernprof or of `workshop record lines`.

    Raises:
        WorkshopError: the file is missing or is not a line profile.
    """
    try:
        stats = _Stats(io.BytesIO(path.read_bytes()), encoding="utf-8").load()
        if not isinstance(stats, LineStats):
            raise _ForeignError(f"it holds a {type(stats).__name__}")
        functions = functions_of(stats.timings, stats.unit, path.parent)
        kept = getattr(stats, "workshop", None)
        if kept:
            processes = {name: functions_of(timings, stats.unit) for name, timings in kept.pop("processes").items()}
            machine = OtherLoad.of_dict(found) if (found := kept.pop("machine", None)) else None
            kept = Recorded(processes=processes, machine=machine, **kept | {"python": tuple(kept["python"])})
        return LineProfile(path, functions, kept)
    except FileNotFoundError:
        raise WorkshopError(f"there is no line profile {path}; {MAKE_ONE}") from None
    except IsADirectoryError:
        raise WorkshopError(f"{path} is a folder; name a line profile in it") from None
    except Exception as error:  # a damaged pickle may raise anything
        kind = kind_of(path)
        if kind is LINE_PROFILE:
            raise WorkshopError(f"{path} is damaged; {MAKE_ONE}") from error
        if isinstance(error, _ForeignError) and (kind is None or not kind.command):
            raise WorkshopError(f"{path} is not a line profile ({error}); {MAKE_ONE}") from error
        raise WorkshopError(wrong_kind(path, "not a line profile", MAKE_ONE)) from error


def write(path: Path, together: LineStats, recorded: Mapping[str, Any]) -> None:
    """Write a line profile that line_profiler reads as well.

    Args:
        path: the file.
        together: the counts of all processes.
        recorded: the fields of `Recorded` as plain values; `processes` has the `Timings` of each.
    """
    together.workshop = dict(recorded)  # type: ignore[attr-defined]
    together.to_file(path)


def functions_of(timings: Timings, unit: float, folder: Path = Path()) -> tuple[Function, ...]:
    """Return the functions of line_profiler's counts; kernprof names the script as a person has.

    Python reports a line 0 of an empty module: there is none.
    """
    return tuple(
        Function(
            folder / file,
            name,
            first_line,
            tuple(Line(number, hits, time * unit) for number, hits, time in sorted(lines) if number),
        )
        for (file, first_line, name), lines in timings.items()
    )


def why_stale(profile: LineProfile, function: Function, script: Path, ran_s: float = 0.0) -> str | None:
    """Return why the script is not the one that was profiled, or None if it is.

    `workshop record lines` has kept the source. A profile of kernprof is written as the run ends, and holds neither the
    source nor a time. So a script that was saved in the `ran_s` seconds before, which the run took at least, was
    edited. Where file times are wrong, the lines that ran must still be lines of the function.

    Raises:
        WorkshopError: the script does not parse.
    """
    name = profile.path.name
    if profile.recorded:
        same = profile.source(function.file) == source_now(script)
        return None if same else f"{script.name} was edited since {name} was recorded"
    saved, written = script.stat().st_mtime, profile.path.stat().st_mtime
    if saved > written:
        return f"{script.name} was saved after {name} was written"
    if saved > written - ran_s:
        return f"{script.name} was saved while the run behind {name} was under way"
    short, first = function.name.rpartition(".")[2], function.first_line
    code = next((code for code in codes(script) if (code.co_name, code.co_firstlineno) == (short, first)), None)
    if code is None:
        return f"in {script.name}, {short} does not begin in line {first}, as it did in {name}"
    numbers = {number for _, _, number in code.co_lines()}
    for line in function.lines:
        if line.number not in numbers:
            return f"line {line.number} of {script.name} is not the line that ran for {name}"
    return None


def source_now(file: Path) -> str | None:
    """Return the source of a file, decoded as Python does; None if it is gone."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    try:
        return decode_source(content)
    except (SyntaxError, UnicodeDecodeError):
        return content.decode(errors="replace")


def same_file(one: Path, other: Path) -> bool:
    """Return whether two paths name the same file, which need not exist."""
    return one.resolve() == other.resolve()


def codes(script: Path) -> list[CodeType]:
    """Return the code object of a script and those of all functions in it.

    Raises:
        WorkshopError: the script does not parse.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of "\d", such as from Python 3.12 on
            return with_inner(compile(script.read_bytes(), str(script), "exec"))
    except (SyntaxError, ValueError) as error:
        raise WorkshopError(f"{script.name} cannot be read as Python: {error}") from error


def with_inner(code: CodeType) -> list[CodeType]:
    """Return a code object and those of all functions in it."""
    found = [code]
    for each in found:  # which grows on the way
        found += [constant for constant in each.co_consts if isinstance(constant, CodeType)]
    return found
