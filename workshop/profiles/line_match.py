"""Finds the statements of a source again in a later version of it: moved, changed, or in a function with another name.

A statement is matched only where the text says so. A line such as `else:` that is found in many places tells nothing by
itself; it is matched where its neighbours are.
"""

import ast
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import pairwise
from typing import Any, TypeVar

from workshop.profiles.statements import Source

T = TypeVar("T")


@dataclass(frozen=True)
class Unit:
    """A statement in a function."""

    function: str
    """The qualified name of the function; "<module>" outside of all."""
    first: int
    """The number of its first line."""
    text: str


Gap = tuple[Sequence[Unit], Sequence[Unit]]
"""The statements of both versions between two equal statements."""


@dataclass(frozen=True)
class Match:
    """A statement in the later version."""

    first: int
    """The number of its first line."""
    kind: str
    """"same", "changed" or "moved"."""


def match(before: Source, after: Source) -> dict[int, Match]:
    """Return the statements of a source that are found in a later version, by the numbers of their first lines."""
    old, new = by_function(before), by_function(after)
    names = {name: name for name in old if name in new}
    names |= dict(_renamed({name: old[name] for name in old.keys() - names}, {n: new[n] for n in new.keys() - names}))
    same: dict[Unit, Unit] = {}
    gaps: list[Gap] = []
    for name, other in names.items():
        _align(old[name], new[other], same, gaps)
    units, new_units = ([unit for function in functions.values() for unit in function] for functions in (old, new))
    moved = dict(_moved(units, new_units, same))
    found = {*moved.keys(), *moved.values()}
    left = [[[unit for unit in units if unit not in found] for units in gap] for gap in gaps]
    changed = [pair for gap, new_gap in left for pair in _changed(gap, new_gap)]
    kinds = {"same": same.items(), "moved": moved.items(), "changed": changed}
    return {one.first: Match(other.first, kind) for kind, pairs in kinds.items() for one, other in pairs}


def by_function(source: Source) -> dict[str, list[Unit]]:
    """Return the statements of each function of a source, without those of the functions inside."""
    owner = _owners(source)
    units: dict[str, list[Unit]] = defaultdict(list)
    for statement in dict.fromkeys(source.statements.values()):
        function = owner.get(statement.first, "<module>")
        units[function].append(Unit(function, statement.first, source.text(statement.first, statement.last)))
    return dict(units)


def _owners(source: Source) -> dict[int, str]:
    """The function of each line in the body of one."""
    owner: dict[int, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{name}.{child.name}".lstrip(".")
                if not isinstance(child, ast.ClassDef):
                    for number in range(child.body[0].lineno, (child.end_lineno or child.lineno) + 1):
                        owner[number] = inside
                    inside += ".<locals>"
            visit(child, inside)

    visit(source.tree, "")
    return owner


def _renamed(old: dict[str, list[Unit]], new: dict[str, list[Unit]]) -> Iterator[tuple[str, str]]:
    """Yield the functions that are called otherwise now, with at least half of the statements that they had."""
    return _clear({(i, j): _likeness(one, two) for i, one in old.items() for j, two in new.items()}, least=0.5)


def _clear(alike: Mapping[tuple[T, T], float], least: float) -> Iterator[tuple[T, T]]:
    """Yield the pairs that are similar enough, and whose halves are less similar to anything else by 0.1 or more."""
    of_each: dict[tuple[int, T], list[float]] = defaultdict(list)
    for pair, share in alike.items():
        for side, each in enumerate(pair):
            of_each[side, each].append(share)
    best_two = {each: nlargest(2, [*shares, 0.0]) for each, shares in of_each.items()}
    for pair, share in alike.items():
        of_both = [best_two[side, each] for side, each in enumerate(pair)]
        if share >= least and all(share == best and share >= next_best + 0.1 for best, next_best in of_both):
            yield pair


def _likeness(units: Sequence[Unit], others: Sequence[Unit]) -> float:
    """The share of the statements that two functions have in common."""
    one, two = (Counter(unit.text for unit in each) for each in (units, others))
    return 2 * (one & two).total() / (one.total() + two.total() or 1)


def _align(old: Sequence[Unit], new: Sequence[Unit], same: dict[Unit, Unit], gaps: list[Gap]) -> None:
    """Match the equal statements of two versions that stand in the same order, and list the gaps between them."""
    if not (old and new):
        return
    anchors = _anchors(old, new)
    if not anchors:
        gaps.append(_without_ends(list(old), list(new), same))
        return
    same |= {old[one]: new[other] for one, other in anchors}
    for (one, other), (next_one, next_other) in pairwise([(-1, -1), *anchors, (len(old), len(new))]):
        _align(old[one + 1 : next_one], new[other + 1 : next_other], same, gaps)  # where more texts are unique


def _anchors(old: Sequence[Unit], new: Sequence[Unit]) -> list[tuple[int, int]]:
    """Return the places of statements that occur once in both, as many as come in the same order."""
    counts, new_counts = (Counter(unit.text for unit in units) for units in (old, new))
    place = {unit.text: number for number, unit in enumerate(new) if new_counts[unit.text] == 1}
    pairs = [
        (number, place[unit.text]) for number, unit in enumerate(old) if counts[unit.text] == 1 and unit.text in place
    ]
    return _longest_rising(pairs)


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of some pairs, ordered by the first number, in which the second one rises, too."""
    ends: list[int] = []
    chains: list[Any] = []  # by its length, the chain that ends lowest: its last pair, and the chain before it
    for pair in pairs:
        length = bisect_left(ends, pair[1])
        ends[length : length + 1] = [pair[1]]
        chains[length : length + 1] = [(pair, chains[length - 1] if length else None)]
    found = []
    chain = chains[-1] if chains else None
    while chain:
        pair, chain = chain
        found.append(pair)
    return found[::-1]


def _without_ends(old: list[Unit], new: list[Unit], same: dict[Unit, Unit]) -> Gap:
    """Match what is equal from the beginning and from the end, and return what remains.

    Where a text occurs more often on one side, nobody can tell which of the statements is new.
    """
    counts, new_counts = (Counter(unit.text for unit in units) for units in (old, new))
    for end in (0, -1):
        while old and new and (text := old[end].text) == new[end].text and counts[text] == new_counts[text]:
            same[old.pop(end)] = new.pop(end)
    return old, new


def _changed(old: Sequence[Unit], new: Sequence[Unit]) -> Iterator[tuple[Unit, Unit]]:
    """Yield the statements of a gap that are similar, and to nothing else; they come in the same order."""
    if len(old) * len(new) <= 10_000:  # more take too long to compare
        alike = {
            (i, j): SequenceMatcher(None, one.text, two.text, autojunk=False).ratio()
            for i, one in enumerate(old)
            for j, two in enumerate(new)
        }
        for i, j in _longest_rising(sorted(_clear(alike, least=0.6))):
            yield old[i], new[j]


def _moved(old: Sequence[Unit], new: Sequence[Unit], found: Mapping[Unit, Unit]) -> Iterator[tuple[Unit, Unit]]:
    """Yield the statements that stand in another place now: their text, if not short, occurs once in both."""
    taken = set(found.values())
    counts, new_counts = (Counter(unit.text for unit in units) for units in (old, new))
    place = {unit.text: unit for unit in new if unit not in taken}
    for unit in old:
        text = unit.text
        if unit not in found and text in place and counts[text] == new_counts[text] == 1 and len(text) >= 8:
            yield unit, place[text]
