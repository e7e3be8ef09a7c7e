"""A recording by py-spy, seen from one script: which of its lines was found how often."""

from collections import Counter
from collections.abc import Iterator
from linecache import getline
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.profiles import lines, stacks
from workshop.profiles.lines import Function, Line
from workshop.profiles.stacks import Frame, Recording
from workshop.recording.py_spy import FOLDER

WAITING = ("sleep", "wait", "select", "poll", "accept", "acquire", "join", "recv", "get")
"""What a Python function is called that waits. `time.sleep` is none: py-spy sees the line that calls it."""

LEAST_WAITING = 0.1
"""Of all samples, in a recording with idle threads: the thread of a progress bar alone takes more."""


def of_script(folders: list[Path], script: Path) -> Iterator[tuple[Path, Recording]]:
    """The recordings of a script in the usual place in one of the folders, the newest first."""
    paths = {path.resolve() for folder in folders for path in (folder / FOLDER).glob("*") if path.is_file()}
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            recording = stacks.read(path)
        except WorkshopError:  # people keep flame graphs there, too
            continue
        if as_function(recording, script).lines:
            yield path, recording


def why_stale(path: Path, recording: Recording, script: Path) -> str | None:
    """Why the lines of a recording are not those of the script as it is now, or None if they are.

    Raises:
        WorkshopError: the script does not parse.
    """
    if script.stat().st_mtime > path.stat().st_mtime:
        return f"{script.name} was saved after {path.name} was written"
    return why_others(path, recording, script)


def why_others(path: Path, recording: Recording, script: Path) -> str | None:
    """Why the lines of a recording cannot be those of a script, or None if they can.

    Raises:
        WorkshopError: the script does not parse.
    """
    there = {(code.co_qualname, number) for code in lines.codes(script) for _, _, number in code.co_lines()}
    for frame in _frames(recording, script):
        if (frame.name, frame.line) not in there:
            return f"{frame.name} of {script.name} has no line {frame.line} that could have run for {path.name}"
    return None


def shows_waiting(recording: Recording, script: Path) -> bool:
    """Whether idle threads were recorded."""
    leaves = ((stack.frames[-1], stack.samples) for stack in recording.stacks if stack.frames)
    waiting = sum(samples for leaf, samples in leaves if _waits(leaf, script))
    return waiting >= LEAST_WAITING * recording.samples


def _waits(frame: Frame, script: Path) -> bool:
    if _is_of(frame, script) and "sleep(" in getline(str(script), frame.line or 0):
        return True
    return frame.name.rpartition(".")[2].lstrip("_") in WAITING


def as_function(recording: Recording, script: Path) -> Function:
    """The lines of a script as if they were those of one function, with samples for seconds.

    A sample counts for the innermost line of the script on its stack. Lines outside of functions are left out: what the
    imports take at the start is the same however long the script trains, and outweighs a short run.
    """
    counts: Counter[int] = Counter()
    for stack in recording.stacks:
        frame = next((frame for frame in reversed(stack.frames) if _is_of(frame, script)), None)
        if frame and frame.line is not None and frame.name != "<module>":
            counts[frame.line] += stack.samples
    found = tuple(Line(number, count, float(count)) for number, count in sorted(counts.items()))
    return Function(script, script.name, 1, found)


def _frames(recording: Recording, script: Path) -> set[Frame]:
    return {frame for stack in recording.stacks for frame in stack.frames if _is_of(frame, script)}


def _is_of(frame: Frame, script: Path) -> bool:
    """py-spy has its path as it was typed, or shortened to its name."""
    return frame.path == script.name or frame.path.replace("\\", "/").endswith(f"/{script.name}")
