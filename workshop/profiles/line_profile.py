"""Reads what kernprof writes: the hits and the time of each line of the profiled functions."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType

import line_profiler

from workshop.errors import WorkshopError


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

    def share(self, number: int) -> float:
        """Return a line's share of the function's time, from 0 to 1; 0 for a line that never ran."""
        return sum(line.seconds for line in self.lines if line.number == number) / (self.seconds or 1.0)


def read(path: Path) -> list[Function]:
    """Return the functions in a line profile, which is a pickle: read only files that you trust.

    Raises:
        WorkshopError: the file is missing or is not a line profile.
    """
    try:
        stats = line_profiler.load_stats(str(path))
        return [
            Function(
                path.parent / file,  # kernprof names the script as it was named on the command line
                name,
                first_line,
                tuple(Line(number, hits, time * stats.unit) for number, hits, time in sorted(lines)),
            )
            for (file, first_line, name), lines in stats.timings.items()
        ]
    except FileNotFoundError:
        raise WorkshopError(f"there is no line profile {path}; run kernprof -lv with your script") from None
    except Exception as error:  # a damaged pickle may raise anything
        reason = str(error) or type(error).__name__
        raise WorkshopError(f"{path} is not a line profile ({reason}); run kernprof -lv once more") from error


def find(path: Path, script: Path, name: str) -> Function | None:
    """Return the function of a script with this name, qualified or not; None if the profile does not contain it.

    Raises:
        WorkshopError: the file is missing or is not a line profile.
    """
    for function in read(path):
        if name in (function.name, function.name.rpartition(".")[2]) and same_file(function.file, script):
            return function
    return None


def why_stale(path: Path, function: Function, script: Path, ran_s: float = 0.0) -> str | None:
    """Return why the script was edited after Python had read it for the profile, or None if it was not.

    The profile is written as the run ends, and holds neither the source nor a time. So a script that was saved in the
    `ran_s` seconds before, which the run took at least, was edited. Where file times are wrong, the lines that ran must
    still be lines of the function.

    Raises:
        WorkshopError: the script does not parse.
    """
    saved, written = script.stat().st_mtime, path.stat().st_mtime
    if saved > written:
        return f"{script.name} was saved after {path.name} was written"
    if saved > written - ran_s:
        return f"{script.name} was saved while the run behind {path.name} was under way"
    name, first = function.name.rpartition(".")[2], function.first_line
    code = next((code for code in codes(script) if (code.co_name, code.co_firstlineno) == (name, first)), None)
    if code is None:
        return f"in {script.name}, {name} does not begin in line {first}, as it did in {path.name}"
    numbers = {number for _, _, number in code.co_lines()}
    for line in function.lines:
        if line.number not in numbers:
            return f"line {line.number} of {script.name} is not the line that ran for {path.name}"
    return None


def same_file(one: Path, other: Path) -> bool:
    """Return whether two paths name the same file, which need not exist."""
    return one.resolve() == other.resolve()


def codes(script: Path) -> list[CodeType]:
    """Return the code object of a script and those of all functions in it.

    Raises:
        WorkshopError: the script does not parse.
    """
    try:
        found = [compile(script.read_bytes(), str(script), "exec")]
    except (SyntaxError, ValueError) as error:
        raise WorkshopError(f"{script.name} cannot be read as Python: {error}") from error
    for code in found:  # which grows on the way
        found += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found
