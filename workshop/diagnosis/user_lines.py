"""Finds the lines of user code that take the most time, from sampled stacks."""

import linecache
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cache

from workshop.profiles.stacks import Frame
from workshop.profiles.statements import Source

MAIN_SHARE = 0.6
"""Share of some time, at least, of a line that is named for all of it, such as one that is called in another."""

Path = tuple[Frame, ...]
"""The frames of user code of a stack, outermost first."""

Place = tuple[str, int]
"""The path of a file, and the number of the first line of a statement."""


@cache
def source_of(path: str) -> Source:
    """Return the source of a file, as it is now."""
    return Source("".join(linecache.getlines(path)))


def place_of(frame: Frame) -> Place:
    """Return where the statement of a frame is."""
    return frame.path, source_of(frame.path).beginning(frame.line or 0)


@dataclass
class Tree:
    """Time by frames of user code: a tree of calls, in which a child is called from the line of its parent."""

    weight: float = 0.0
    children: dict[Frame, "Tree"] = field(default_factory=dict)

    def add(self, path: Iterable[Frame], weight: float) -> None:
        """Add the time of a path below this node."""
        node = self
        node.weight += weight
        for frame in path:
            node = node.children.setdefault(frame, Tree())
            node.weight += weight


@dataclass(frozen=True)
class HotLine:
    """A line that takes much time, including everything that it calls."""

    path: Path
    """The frames of user code down to this line."""
    weight: float
    of_call: float
    """The time of the whole call of the function that contains the line."""
    beside: dict[Frame, float] = field(default_factory=dict)
    """The time of the other lines of that function."""

    @property
    def frame(self) -> Frame:
        """The line itself."""
        return self.path[-1]

    def holds(self, path: Path) -> bool:
        """Return whether a path leads through this line."""
        return path[: len(self.path)] == self.path


def hottest(paths: Iterable[tuple[Path, float]], trunk: Collection[Frame | tuple[str, str]] = ()) -> HotLine | None:
    """Return the line that takes the most time: the deepest that still has most of its caller's time.

    Return None if there is no frame of user code. `trunk` has the name and path of functions that do many different
    things: in these, the search always goes on to the heaviest line that is called.
    """
    node, found, of_call = Tree(), list[Frame](), 0.0
    beside: dict[Frame, float] = {}
    for path, weight in paths:
        node.add(path, weight)
    while node.children:
        frame, child = max(node.children.items(), key=lambda item: item[1].weight)
        if found and _function(frame) not in trunk and child.weight < MAIN_SHARE * node.weight:
            break
        if found and frame.name == "__init__":  # an object is made where one should not be
            break
        if not _is_part_of_a_function(frame):
            of_call = child.weight if _function(frame) in trunk else node.weight
        lines = {each: tree.weight for each, tree in node.children.items() if _function(each) == _function(frame)}
        beside = {each: seconds for each, seconds in lines.items() if each != frame}
        found.append(frame)
        node = child
    return HotLine(tuple(found), node.weight, of_call, beside) if found else None


def main_lines(paths: Iterable[tuple[Path, float]]) -> dict[Frame, Frame]:
    """Return, for each frame in a statement of several lines, the one of them with most time: they are one line."""
    weights: defaultdict[tuple[str, Place], Counter[Frame]] = defaultdict(Counter)
    for path, weight in paths:
        for frame in path:
            weights[frame.name, place_of(frame)][frame] += weight  # type: ignore[assignment]
    return {frame: lines.most_common(1)[0][0] for lines in weights.values() for frame in lines}


def trunk_of(paths: Iterable[Path]) -> set[tuple[str, str]]:
    """Return name and path of each function on these paths."""
    return {_function(frame) for path in paths for frame in path}


def time_by_line(paths: Iterable[tuple[Path, float]]) -> Counter[Frame]:
    """Return the weight of each innermost line of user code."""
    found: Counter[Frame] = Counter()
    for path, weight in paths:
        if path:
            found[path[-1]] += weight  # type: ignore[assignment]
    return found


def _is_part_of_a_function(frame: Frame) -> bool:
    """Whether this is the frame of a comprehension or of a lambda."""
    return frame.name.startswith("<") and frame.name != "<module>"


def _function(frame: Frame) -> tuple[str, str]:
    return frame.name, frame.path
