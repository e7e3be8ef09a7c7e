"""Tables of where the samples of a recording fell, for `workshop py-spy-report`.

The rules and the names of the columns are those of itwinai's `generate-py-spy-report`, so that its users find what they
know: frames of module bodies are skipped, the leaf is the last frame that remains, and the library function is the
innermost frame whose path contains the library's name. Where the library is the script that was recorded, which those
rules do not know, its body takes the place of a function of it: many loops stand in no function.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from workshop.profiles.stacks import Frame, Recording

_LIBRARY_COLUMNS = ("library_function_name", "library_function_path", "library_function_line")
COLUMNS = ("name", "path", "line", *_LIBRARY_COLUMNS, "proportion (n)")
NOT_FOUND = "Not Found"
NO_USER_CODE = "no line of yours on the stack"
"""The name of the row that counts the samples of Python's and of libraries' own threads; it has no path."""
BUILT_IN = "built-in"
NO_LINE = -1


class Spot(NamedTuple):
    """A place in the code, and the place in the library's code that led there."""

    leaf: Frame | None
    """The leaf frame; None if the stack has no frame of the user's code although only those were asked for."""
    library: Frame | None
    """The innermost frame of the library, if there is one."""


@dataclass(frozen=True)
class ReportRow:
    """A row of the table."""

    spot: Spot
    samples: int
    proportion: float
    """The share of all samples in the table, from 0 to 1."""

    def as_dict(self) -> dict[str, str | int]:
        """Return the values of `COLUMNS`, and the number of samples as "samples"."""
        leaf, library = self.spot
        library_values = map(str, _columns(library)) if library else [NOT_FOUND] * 3
        values = (*_columns(leaf), *library_values, f"{self.proportion:.2%} ({self.samples})", self.samples)
        return dict(zip((*COLUMNS, "samples"), values, strict=True))


@dataclass(frozen=True)
class ReportTable:
    """Rows in descending order of samples; rows with equally many are sorted by their columns."""

    rows: list[ReportRow]
    samples: int
    """The number of samples in the table; in a table of total times, a sample is in a row for each of its frames."""
    left_out: int
    """The samples of stacks without a frame to show: Python was starting, or ran the body of a module."""


def leaves(
    recording: Recording,
    library: str,
    aggregate: bool = True,
    modules: bool = False,
    is_user_code: Callable[[Frame], bool] | None = None,
    is_script: bool = False,
) -> ReportTable:
    """Return self times: each sample counts for the leaf frame of its stack.

    Args:
        recording: the stacks.
        library: the text that the path of a library function contains.
        aggregate: whether stacks with equal columns make one row; otherwise each stack has a row.
        modules: whether frames of module bodies are shown.
        is_user_code: tells frames of the user's code; the leaf is then the innermost of these, and stacks without one
            are a row of their own. None counts all frames.
        is_script: whether the library is the script: its body is named where no function of it has led to the leaf.
    """
    found = []
    for stack in recording.stacks:
        shown = (frame for frame in reversed(stack.frames) if modules or "<module>" not in frame.name)
        innermost = leaf = next(shown, None)
        if innermost is None:
            continue
        if is_user_code and not is_user_code(innermost):
            leaf = next(filter(is_user_code, shown), None)
        of_library = _library_frame(stack.frames, library, modules)
        if is_script and not of_library:
            of_library = _library_frame(stack.frames, library, modules=True)
        found.append((Spot(leaf, of_library), stack.samples))
    return _report_table(found, sum(samples for _, samples in found), recording.samples, aggregate)


def totals(recording: Recording, library: str, modules: bool = False, is_script: bool = False) -> ReportTable:
    """Return total times: each sample counts once for every frame of its stack, which may be of the library itself."""
    found: list[tuple[Spot, int]] = []
    samples = 0
    for stack in recording.stacks:
        innermost = body = None
        spots: dict[Frame, Spot] = {}
        for frame in stack.frames:
            shown, of_library = modules or "<module>" not in frame.name, library in _path(frame)
            innermost = frame if of_library and shown else innermost
            body = frame if of_library and is_script else body
            if shown:
                spots[frame] = Spot(frame, innermost or body)
        samples += stack.samples if spots else 0
        found += [(spot, stack.samples) for spot in spots.values()]
    return _report_table(found, samples, recording.samples)


class SampleChange(NamedTuple):
    """The samples of a function in two recordings, whatever line it stands in."""

    change: int
    before: int
    after: int
    name: str
    path: str


def changes(before: Recording, after: Recording, total: bool = False) -> list[SampleChange]:
    """Return the functions that got slower or faster in self time or total time, in descending order of the change.

    Both recordings must be of the same work at the same rate, so that samples stand for time.
    """
    old, new = (_samples_by_function(recording, total) for recording in (before, after))
    found = [SampleChange(new[each] - old[each], old[each], new[each], *each) for each in old.keys() | new.keys()]
    return sorted((each for each in found if each.change), key=lambda each: (-abs(each.change), each.name, each.path))


def _samples_by_function(recording: Recording, total: bool) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for stack in recording.stacks:
        functions = [(frame.name, _path(frame)) for frame in stack.frames]
        for function in set(functions) if total else functions[-1:]:
            counts[function] += stack.samples
    return counts


def _library_frame(frames: tuple[Frame, ...], library: str, modules: bool) -> Frame | None:
    of_library = (frame for frame in reversed(frames) if library in frame.path and library in _path(frame))
    return next((frame for frame in of_library if modules or "<module>" not in frame.name), None)


def _report_table(found: list[tuple[Spot, int]], shown: int, recorded: int, aggregate: bool = True) -> ReportTable:
    if aggregate:
        counts: Counter[Spot] = Counter()
        for spot, number in found:
            counts[Spot(*map(_without_import_lines, spot))] += number
        found = list(counts.items())
    rows = [ReportRow(spot, number, number / shown) for spot, number in found]
    rows.sort(key=lambda row: (-row.samples, *map(_columns, row.spot)))
    return ReportTable(rows, shown, recorded - shown)


def _without_import_lines(frame: Frame | None) -> Frame | None:
    """Return the frame; all places in Python's import machinery become one."""
    if frame is None or (frame.line is not None and "frozen importlib" not in frame.path):
        return frame
    return Frame(*_columns(frame))


def _columns(frame: Frame | None) -> tuple[str, str, int]:
    if frame is None:
        return NO_USER_CODE, "", NO_LINE
    path = _path(frame)
    return frame.name, path, NO_LINE if frame.line is None or path == BUILT_IN else frame.line


def _path(frame: Frame) -> str:
    return BUILT_IN if "frozen importlib" in frame.path else frame.path
