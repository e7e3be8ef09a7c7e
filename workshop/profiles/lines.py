"""What kernprof writes: for each profiled function the hits and the time of its lines."""

from collections.abc import Iterator
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
    """Qualified: "CustomSlowDataset.__getitem__"."""

    first_line: int
    """That of the topmost decorator, if there is one."""

    lines: tuple[Line, ...]
    """Those that ran, in the order of the file."""

    @cached_property
    def seconds(self) -> float:
        """In the function, over all its lines."""
        return sum(line.seconds for line in self.lines)

    @cached_property
    def hottest(self) -> Line | None:
        """The line that took longest; None where none ran."""
        return max(self.lines, key=lambda line: line.seconds, default=None)

    def share(self, number: int) -> float:
        """A line's part of the function's time, from 0 to 1; 0 for a line that never ran."""
        return sum(line.seconds for line in self.lines if line.number == number) / (self.seconds or 1.0)


def read(path: Path) -> list[Function]:
    """The functions in a line profile. It is a pickle, as line_profiler has it: read only what you trust.

    Raises:
        WorkshopError: the file is missing, or holds no line profile.
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
    """A function of a script in a line profile, by its name, qualified or not; None where it was not profiled.

    Raises:
        WorkshopError: see `read`.
    """
    for function in read(path):
        if name in (function.name, function.name.rpartition(".")[2]) and same_file(function.file, script):
            return function
    return None


def why_stale(path: Path, function: Function, script: Path, ran_s: float = 0.0) -> str | None:
    """Why the numbers of a profile's lines are not those of the script as it is now, or None if they are.

    The profile holds no source and no time of its own. It was written as the run ended, so a script that was saved
    later than that, less what the run took, was edited after Python had read it. Where clocks or times of files cannot
    be trusted, the lines tell: all that ran must still be lines of that function.

    Args:
        path: the profile.
        function: of the script, as the profile has it.
        script: as it is now.
        ran_s: seconds that the run took at least.

    Raises:
        WorkshopError: the script does not parse.
    """
    saved, written = script.stat().st_mtime, path.stat().st_mtime
    if saved > written:
        return f"{script.name} was saved after {path.name} was written"
    if saved > written - ran_s:
        return f"{script.name} was saved while the run behind {path.name} was under way"
    name = function.name.rpartition(".")[2]
    code = next(
        (code for code in codes(script) if (code.co_name, code.co_firstlineno) == (name, function.first_line)), None
    )
    if code is None:
        return f"in {script.name}, {name} does not begin in line {function.first_line}, as it did in {path.name}"
    numbers = {number for _, _, number in code.co_lines()}
    if gone := [line.number for line in function.lines if line.number not in numbers]:
        return f"line {gone[0]} of {script.name} is not the line that ran for {path.name}"
    return None


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name the same file; one that is gone is the same as itself."""
    return one.resolve() == other.resolve()


def codes(script: Path) -> list[CodeType]:
    """The code of a script and of all functions in it.

    Raises:
        WorkshopError: it does not parse.
    """
    try:
        return list(_inside(compile(script.read_bytes(), str(script), "exec")))
    except (SyntaxError, ValueError) as error:
        raise WorkshopError(f"{script.name} cannot be read as Python: {error}") from error


def _inside(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _inside(constant)
