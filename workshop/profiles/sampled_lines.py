"""Counts how often each line of one script is in the samples of a py-spy recording."""

from collections import Counter
from collections.abc import Iterator
from linecache import getline
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.profiles import line_profile, stacks
from workshop.profiles.line_profile import Function, Line
from workshop.profiles.sample_groups import WAITING
from workshop.profiles.stacks import Frame, Recording


def recordings_of(places: list[Path], script: Path) -> Iterator[tuple[Path, Recording]]:
    """Yield the recordings of a script in some files and folders, and their paths; the newest first."""
    paths = {path.resolve() for place in places for path in (place, *place.glob("*")) if path.is_file()}
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            recording = stacks.read(path)
        except WorkshopError:  # the folder may hold flame graphs, too
            continue
        if as_function(recording, script).lines:
            yield path, recording


def why_stale(path: Path, recording: Recording, script: Path) -> str | None:
    """Return why the script was edited after the recording was made, or None if it was not.

    Raises:
        WorkshopError: the script does not parse.
    """
    if script.stat().st_mtime > path.stat().st_mtime:
        return f"{script.name} was saved after {path.name} was written"
    return why_of_another_script(path, recording, script)


def why_of_another_script(path: Path, recording: Recording, script: Path) -> str | None:
    """Return why the recorded lines cannot be those of this version of a script, or None if they can.

    Raises:
        WorkshopError: the script does not parse.
    """
    lines = {(code.co_qualname, number) for code in line_profile.codes(script) for _, _, number in code.co_lines()}
    for frame in {frame for stack in recording.stacks for frame in stack.frames if _is_of(frame, script)}:
        if (frame.name, frame.line) not in lines:
            return f"{frame.name} of {script.name} has no line {frame.line} that could have run for {path.name}"
    return None


def shows_waiting(recording: Recording, script: Path) -> bool:
    """Return whether the recording contains the samples of idle threads: a progress bar's alone makes up a tenth."""
    waiting = sum(stack.samples for stack in recording.stacks if stack.frames and _waits(stack.frames[-1], script))
    return waiting >= 0.1 * recording.samples


def as_function(recording: Recording, script: Path) -> Function:
    """Return the lines of a script as if they were those of one function, with samples in place of seconds.

    A sample counts for the innermost line of the script on its stack. Lines outside of functions are left out: the
    imports take equally long however long the script trains, and outweigh a short run.
    """
    counts: Counter[int] = Counter()
    for stack in recording.stacks:
        frame = next((frame for frame in reversed(stack.frames) if _is_of(frame, script)), None)
        if frame and frame.line is not None and frame.name != "<module>":
            counts[frame.line] += stack.samples
    lines = tuple(Line(number, count, float(count)) for number, count in sorted(counts.items()))
    return Function(script, script.name, 1, lines)


def samples_below(recording: Recording, script: Path, number: int) -> int:
    """Return the number of samples in which a line of a script waits for another of its lines."""
    below = 0
    for stack in recording.stacks:
        lines = [frame.line for frame in stack.frames if _is_of(frame, script)]
        below += stack.samples * (number in lines[:-1] and lines[-1] != number)
    return below


def _waits(frame: Frame, script: Path) -> bool:
    if _is_of(frame, script) and "sleep(" in getline(str(script), frame.line or 0):
        return True
    return frame.name.rpartition(".")[2].lstrip("_") in WAITING


def _is_of(frame: Frame, script: Path) -> bool:
    """Return whether a frame is of a script, whose path py-spy has as it was typed, or shortened to its name."""
    return frame.path == script.name or frame.path.replace("\\", "/").endswith(f"/{script.name}")
