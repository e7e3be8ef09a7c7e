"""Where the samples of a recording fell: the table of `workshop py-spy-report`.

The rules, and the columns' names, are those of itwinai's `generate-py-spy-report`, so that its readers find what they
know: frames of module bodies are passed over, the leaf is the last frame left, and the library function is the deepest
frame whose path contains the library's name.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from workshop.profiles.stacks import Frame, Recording

COLUMNS = (
    "name",
    "path",
    "line",
    "library_function_name",
    "library_function_path",
    "library_function_line",
    "proportion (n)",
)
NOT_FOUND = "Not Found"
BUILT_IN = "built-in"
NO_LINE = -1

IsOwn = Callable[[Frame], bool]


class Spot(NamedTuple):
    """A place in the code, and the place in the library's code that led there."""

    leaf: Frame | None
    """None where a stack has no frame of the kind that was asked for."""
    library: Frame | None
    """None where no frame of the stack is the library's."""


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    spot: Spot
    samples: int
    proportion: float
    """Of all samples of the table, from 0 to 1."""

    def as_dict(self) -> dict[str, str | int]:
        """The columns, and the samples once more as a number."""
        leaf, library = self.spot
        of_library = map(str, _columns(library)) if library else [NOT_FOUND] * 3
        values: list[str | int] = [
            *_columns(leaf),
            *of_library,
            f"{self.proportion:.2%} ({self.samples})",
            self.samples,
        ]
        return dict(zip((*COLUMNS, "samples"), values, strict=True))


@dataclass(frozen=True)
class Table:
    """The rows, those with most samples first; equal ones in the order of their columns."""

    rows: list[Row]
    samples: int
    """Of all rows. In a table of totals a sample counts in a row for each of its frames, and here once."""
    left_out: int
    """Samples of stacks with no frame to show: of module bodies, or from before Python was there."""


def leaves(recording: Recording, library: str, aggregate: bool = True, modules: bool = False) -> Table:
    """Where each sample was, self time: the last frame of its stack.

    Args:
        recording: the stacks.
        library: what the path of a library function contains.
        aggregate: sum what is equal in all columns; else each stack has its row.
        modules: show frames of module bodies, too.
    """
    return _table(_spots(recording, library, modules), recording, aggregate)


def totals(recording: Recording, library: str, modules: bool = False) -> Table:
    """In which functions each sample was, total time: every frame of its stack, once.

    Args:
        recording: the stacks.
        library: what the path of a library function contains; it is looked for in the frame itself and above it.
        modules: show frames of module bodies, too.
    """
    found: list[tuple[Spot, int]] = []
    samples = 0
    for stack in recording.stacks:
        deepest: Frame | None = None
        spots: dict[Frame, Spot] = {}
        for frame in stack.frames:
            if modules or "<module>" not in frame.name:
                deepest = frame if library in _path(frame) else deepest
                spots[frame] = Spot(frame, deepest)
        samples += stack.samples if spots else 0
        found += [(spot, stack.samples) for spot in spots.values()]
    return _table(found, recording, aggregate=True, samples=samples)


def own_leaves(recording: Recording, library: str, is_own: IsOwn, modules: bool = False) -> Table:
    """Where in one's own code each sample was, whatever it called there.

    Args:
        recording: the stacks.
        library: as of `leaves`.
        is_own: whether a frame is of one's own code; stacks without one are a row of their own.
        modules: show frames of module bodies, too.
    """
    return _table(_spots(recording, library, modules, is_own), recording, aggregate=True)


class Function(NamedTuple):
    """A function of any line: lines move from one version of a script to the next."""

    name: str
    path: str


@dataclass(frozen=True)
class Change:
    """A function in two recordings."""

    function: Function
    before: int
    """Samples."""
    after: int

    @property
    def more(self) -> int:
        """Samples that came; below 0, went."""
        return self.after - self.before


def changes(before: Recording, after: Recording, total: bool = False) -> list[Change]:
    """What got slower and what faster, the largest change first.

    Args:
        before: a recording of some work.
        after: of the same work, at the same rate: then samples are time.
        total: compare the functions' total time instead of their self time.
    """
    old, new = (_functions(recording, total) for recording in (before, after))
    found = [Change(function, old[function], new[function]) for function in old.keys() | new.keys()]
    return sorted((each for each in found if each.more), key=lambda each: (-abs(each.more), each.function))


def _functions(recording: Recording, total: bool) -> Counter[Function]:
    counts: Counter[Function] = Counter()
    for stack in recording.stacks:
        functions = [Function(frame.name, _path(frame)) for frame in stack.frames]
        for function in set(functions) if total else functions[-1:]:
            counts[function] += stack.samples
    return counts


def _spots(recording: Recording, library: str, modules: bool, is_own: IsOwn | None = None) -> list[tuple[Spot, int]]:
    """Of each stack with a frame to show: its leaf, or its last own frame, and its deepest library frame."""
    found = []
    for stack in recording.stacks:
        shown = (frame for frame in reversed(stack.frames) if modules or "<module>" not in frame.name)
        last = leaf = next(shown, None)
        if last is None:
            continue
        if is_own and not is_own(last):
            leaf = next(filter(is_own, shown), None)
        found.append((Spot(leaf, _deepest(stack.frames, library, modules)), stack.samples))
    return found


def _deepest(frames: tuple[Frame, ...], library: str, modules: bool) -> Frame | None:
    for frame in reversed(frames):
        if library in frame[1] and (modules or "<module>" not in frame.name) and library in _path(frame):
            return frame
    return None


def _table(found: list[tuple[Spot, int]], recording: Recording, aggregate: bool, samples: int | None = None) -> Table:
    """With rows for all that was found; `samples` is how many there are, if it is not their sum."""
    if samples is None:
        samples = sum(number for _, number in found)
    if aggregate:
        counts: Counter[Spot] = Counter()
        for spot, number in found:
            counts[Spot(_plain(spot.leaf), _plain(spot.library))] += number
        found = list(counts.items())
    rows = [Row(spot, number, number / samples) for spot, number in found]
    rows.sort(key=lambda row: (-row.samples, *(_columns(frame) for frame in row.spot)))
    return Table(rows, samples, recording.samples - samples)


def _plain(frame: Frame | None) -> Frame | None:
    """All of Python's own import machinery is one place."""
    if frame is None or (frame.line is not None and "frozen importlib" not in frame.path):
        return frame
    return Frame(*_columns(frame))


def _columns(frame: Frame | None) -> tuple[str, str, int]:
    if frame is None:
        return NOT_FOUND, NOT_FOUND, NO_LINE
    path = _path(frame)
    return frame.name, path, NO_LINE if frame.line is None or path == BUILT_IN else frame.line


def _path(frame: Frame) -> str:
    return BUILT_IN if "frozen importlib" in frame.path else frame.path
