"""What changed from one line profile to another, line by line; lines are found again though the source was edited."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

from workshop import noise
from workshop.errors import WorkshopError
from workshop.profiles.line_match import match
from workshop.profiles.line_profile import Function, LineProfile
from workshop.profiles.line_tables import calls_of, source_of
from workshop.profiles.statements import Row, Source
from workshop.runs.other_load import OtherLoad

NOT_RUN, NOT_PROFILED = "not run", "not profiled"
"""The kinds of a statement that is still there, but has no hits on one side."""

MIN_SLOWDOWN = 1.2
"""A factor: untouched lines that became slower or faster by less count as unchanged."""


@dataclass(frozen=True)
class RowChange:
    """A statement before and after."""

    kind: str
    """"same", "changed", "moved", "added" or "deleted"; "not run" or "not profiled" on the side that is None, where
    the statement is in the file or the whole file is not in the profile."""
    before: Row | None
    after: Row | None
    before_s: float
    after_s: float
    """The mean times of the runs; without the time of a function that was split off and is called here. Of runs of
    different lengths, that before is the time of as many hits as after."""
    is_noise: bool
    """Whether runs of one script may well differ by as much; False where there is but one run."""
    as_untouched: bool
    """Whether the line only got slower or faster as all untouched lines did: see `LineChange.slowdown`."""

    @property
    def seconds(self) -> float:
        """The change, in seconds; less than 0 for what got faster."""
        return self.after_s - self.before_s

    @property
    def is_recursive(self) -> bool:
        """Whether it calls its own function, and has the time of every level of the recursion again."""
        return any(side.is_recursive for side in (self.before, self.after) if side)

    @property
    def is_edited(self) -> bool:
        """Whether the text of the statement, or its place, is another one."""
        return self.kind in ("changed", "moved", "added", "deleted")

    def as_dict(self) -> dict[str, Any]:
        """Return the change as plain values."""
        sides = {
            name: {"line": side.first, "hits": side.hits, "text": side.text} if side else None
            for name, side in (("before", self.before), ("after", self.after))
        }
        return vars(self) | sides


@dataclass(frozen=True)
class FunctionChange:
    """A function before and after, or several that were one."""

    before: tuple[Function, ...]
    after: tuple[Function, ...]
    rows: list[RowChange]

    @property
    def title(self) -> str:
        """The name; what it was and what it is, if it has another now, or what became of it."""
        old, new = (", ".join(dict.fromkeys(each.title for each in side)) for side in (self.before, self.after))
        if old and new:
            return old if old == new else f"{old} -> {new}"
        kinds = {row.kind for row in self.rows}
        what = next((kind for kind in (NOT_PROFILED, NOT_RUN) if kind in kinds), self.rows[0].kind)
        when = (" after" if old else " before") if what in (NOT_PROFILED, NOT_RUN) else ""
        return f"{old or new}, {what}{when}"

    @property
    def is_edited(self) -> bool:
        """Whether any of the statements was edited."""
        return any(row.is_edited for row in self.rows)

    @property
    def before_s(self) -> float:
        """The time of all lines before; of a function that calls itself, without those that do."""
        return sum(row.before_s for row in self._counted)

    @property
    def after_s(self) -> float:
        """The time of all lines after; of a function that calls itself, without those that do."""
        return sum(row.after_s for row in self._counted)

    @property
    def _counted(self) -> list[RowChange]:
        return [row for row in self.rows if not row.is_recursive] or self.rows

    @property
    def seconds(self) -> float:
        """The change, in seconds."""
        return self.after_s - self.before_s


@dataclass(frozen=True)
class LineChange:
    """All that changed between two profiles."""

    functions: list[FunctionChange]
    """The functions, the largest change first."""
    runs: tuple[int, int]
    """The numbers of runs before and after."""
    runs_s: tuple[float, float] | None
    """The mean time of a run before and after; None if it is not known."""
    slowdown: float
    """How many times as long the untouched lines took after as before; 1 if they took as long, or do not agree."""
    more_hits: float
    """How many times as often the lines ran after as before; 1 for runs of the same length."""
    machines: tuple[dict[Path, OtherLoad], dict[Path, OtherLoad]]
    """What other programs used of the cores in the runs before and after, by the profile; without those of kernprof."""

    @property
    def was_quiet(self) -> bool:
        """Whether it is known of every run that the machine was not busy."""
        loads = [load for side in self.machines for load in side.values()]
        return len(loads) == sum(self.runs) and not any(load.busy or load.other_cores is None for load in loads)

    def own_growth_s(self, function: FunctionChange, row: RowChange) -> float:
        """Return the seconds by which a row of a function grew, and not the functions that it calls.

        If the row was edited, and a function that it calls was not, the function grew because of the row.
        """
        text = row.after.text if row.after else ""
        called = (each for each in self.functions if each is not function and each.after)
        inside_s = sum(
            each.seconds
            for each in called
            if calls_of(each.after).search(text) and (each.is_edited or not row.is_edited)
        )
        return min(row.seconds - inside_s, function.seconds)

    def of(self, name: str) -> "LineChange":
        """Return the change of one function, by a name that it has or had.

        Raises:
            WorkshopError: there is no such function.
        """
        functions = [
            function
            for function in self.functions
            if any(one.is_called(name) for one in (*function.before, *function.after))
        ]
        if not functions:
            raise WorkshopError(f"no function {name} ran in either; see --diff without --function")
        return replace(self, functions=functions)

    def as_dict(self) -> dict[str, Any]:
        """Return the change as plain values; the time of a function is also in that of its caller."""
        return {
            "runs": list(self.runs),
            "runs_s": list(self.runs_s) if self.runs_s else None,
            "slowdown": self.slowdown,
            "more_hits": self.more_hits,
            "machines": [{str(path): load.as_dict() for path, load in side.items()} for side in self.machines],
            "before_s": sum(function.before_s for function in self.functions),
            "after_s": sum(function.after_s for function in self.functions),
            "functions": [
                {
                    "before": [each.name for each in function.before],
                    "after": [each.name for each in function.after],
                    "file": str((function.after or function.before)[0].file),
                    "before_s": function.before_s,
                    "after_s": function.after_s,
                    "rows": [row.as_dict() for row in function.rows],
                }
                for function in self.functions
            ],
        }


@dataclass(eq=False)
class _TimedRow:
    """A row of a function, with its time in each run."""

    function: Function
    row: Row
    statement: int
    """The first line of the statement that the row is in. A lambda or a function in one line has rows of its own, in a
    statement that has one as well."""
    seconds: list[float]

    @property
    def place(self) -> tuple[str, int]:
        """The kind of function a row is in, and its line, which tell the rows of a statement apart."""
        name = self.function.name.rpartition(".")[2]
        return name if name in ("<module>", "<lambda>") else "function", self.row.first - self.statement

    def is_like(self, other: "_TimedRow") -> tuple[bool, bool]:
        """Return whether both are in functions of the same name, and in functions that are as deep inside others."""
        one, two = self.function.name, other.function.name
        return one == two, one.count(".") == two.count(".")


Pair = tuple[str, _TimedRow | None, _TimedRow | None]
"""How a statement was found again, and what it was and is."""


class _Runs:
    """Some runs of one script."""

    def __init__(self, profiles: Sequence[LineProfile]) -> None:
        files = sorted({each.file for profile in profiles for each in profile.functions if each.lines})
        self.sources: dict[Path, Source] = {file: source_of(profiles[0], file) for file in files}
        self.profiles = profiles
        for profile in profiles[1:]:
            if changed := [file for file in files if profile.source(file) != profiles[0].source(file)]:
                one, other = profiles[0].path, profile.path
                raise WorkshopError(f"{one} and {other} are not runs of the same {changed[0].name}")
        rows: dict[tuple[Path, int, str, int], _TimedRow] = {}
        for number, profile in enumerate(profiles):
            for function in (each for each in profile.functions if each.lines):
                source = self.sources[function.file]
                for row in source.rows(function):
                    key = function.file, function.first_line, function.name, row.first
                    none = [0.0] * len(profiles)
                    timed = rows.setdefault(key, _TimedRow(function, row, source.beginning(row.first), none))
                    timed.seconds[number] += row.seconds
        self.rows = list(rows.values())

    def counted(self, function: Function) -> bool:
        """Return whether the lines of a function were counted, if it ran."""
        return all(profile.counted(function.name) for profile in self.profiles)


def between(before: Sequence[LineProfile], after: Sequence[LineProfile], *, same_length: bool = False) -> LineChange:
    """Compare two line profiles, or several runs of each of two scripts.

    Args:
        before: the runs before.
        after: the runs after.
        same_length: whether all runs are known to have the same to do; else those of another length are compared by
            the time of a hit.

    Raises:
        WorkshopError: several runs are not of the same script.
    """
    pairs = list(_pairs(_Runs(before), _Runs(after)))
    slowdown = _slowdown(pairs)
    hits = [(one.row.hits, other.row.hits) for _, one, other in pairs if one and other and not same_length]
    functions = [_function_change(group, len(pairs), slowdown, more_hits(hits)) for group in _groups(pairs)]
    functions.sort(key=lambda function: abs(function.seconds), reverse=True)
    old_s, new_s = ([each.recorded.seconds for each in side if each.recorded] for side in (before, after))
    runs = len(before), len(after)
    means_s = (mean(old_s), mean(new_s)) if (len(old_s), len(new_s)) == runs else None
    return LineChange(functions, runs, means_s, slowdown, more_hits(hits), (_machines(before), _machines(after)))


def _machines(profiles: Sequence[LineProfile]) -> dict[Path, OtherLoad]:
    """What other programs used of the cores in each run where that was recorded, by the profile."""
    known = [(profile.path, profile.recorded.machine) for profile in profiles if profile.recorded]
    return {path: machine for path, machine in known if machine}


def _pairs(old: _Runs, new: _Runs) -> Iterator[Pair]:
    """Yield each row with the one that it is after, and how it was found."""
    files = _same_files(sorted(old.sources), sorted(new.sources))
    found = {file: match(old.sources[file], new.sources[other]) for file, other in files.items()}
    after: dict[tuple[Path, int], list[_TimedRow]] = defaultdict(list)
    for other in new.rows:
        after[other.function.file, other.statement].append(other)
    for one in old.rows:
        known = found.get(one.function.file, {}).get(one.statement)
        candidates = after[files[one.function.file], known.first] if known else []
        candidates = [candidate for candidate in candidates if candidate.place == one.place]
        same = max(candidates, key=one.is_like, default=None)
        if same:
            after[same.function.file, same.statement].remove(same)
        if known and same:
            yield known.kind, one, same
        elif known or one.function.file not in files:
            yield NOT_RUN if new.counted(one.function) else NOT_PROFILED, one, None
        else:
            yield "deleted", one, None
    still_there = {(files[file], known.first) for file, of_file in found.items() for known in of_file.values()}
    for place, left in after.items():
        for other in left:
            if place in still_there or other.function.file not in files.values():
                yield NOT_RUN if old.counted(other.function) else NOT_PROFILED, None, other
            else:
                yield "added", None, other


def _slowdown(pairs: Sequence[Pair]) -> float:
    """Return how many times as long a hit of the untouched lines takes; 1 if they took as long, or do not agree.

    It takes four lines that took 5 ms each, before and after. Lines of a module's body and lines that call a profiled
    function are left out: these have the time of others, too.
    """
    calls = calls_of(timed.function for pair in pairs for timed in pair[1:] if timed)
    ratios = [
        mean(other.seconds) / other.row.hits * one.row.hits / mean(one.seconds)
        for kind, one, other in pairs
        if kind == "same" and one and other and one.function.name != "<module>" and not calls.search(one.row.text)
        if min(*one.seconds, *other.seconds) >= 0.005 and one.row.hits and other.row.hits
    ]
    if len(ratios) < 4:
        return 1.0
    quarter, half, three_quarters = quantiles(ratios, n=4)
    return half if quarter > MIN_SLOWDOWN or three_quarters < 1 / MIN_SLOWDOWN else 1.0


def more_hits(hits: Iterable[tuple[int, int]]) -> float:
    """Return how many times as often lines ran after as before, by their hits: the median; 1 if about as often.

    Lines with fewer than ten hits on both sides tell nothing, and runs within 10 % of each other are of one length.
    """
    ratios = [after / before for before, after in hits if before and after and max(before, after) >= 10]
    ratio = median(ratios) if ratios else 1.0
    return 1.0 if 1 / 1.1 < ratio < 1.1 else ratio


def _same_files(old: Sequence[Path], new: Sequence[Path]) -> dict[Path, Path]:
    """Return which file is which: those of the same name, and two that are left over."""
    found = {}
    for file in old:
        same = [each for each in new if each.name == file.name]
        same = [path for path in same if path.parent.name == file.parent.name] if len(same) > 1 else same
        if len(same) == 1:
            found[file] = same[0]
    left, new_left = [each for each in old if each not in found], [each for each in new if each not in found.values()]
    if len(left) == len(new_left) == 1:
        found[left[0]] = new_left[0]
    return found


def _groups(pairs: Sequence[Pair]) -> Iterable[list[Pair]]:
    """Put the pairs of functions together that have a statement in common."""
    ends = [
        frozenset((side, timed.function.file, timed.function.name) for side, timed in enumerate(pair[1:]) if timed)
        for pair in pairs
    ]
    together: list[frozenset[tuple[int, Path, str]]] = []
    for each in dict.fromkeys(ends):
        apart = [functions for functions in together if not functions & each]
        together = [*apart, each.union(*(functions for functions in together if functions & each))]
    number = {function: at for at, functions in enumerate(together) for function in functions}
    groups: dict[int, list[Pair]] = defaultdict(list)
    for pair, each in zip(pairs, ends, strict=True):
        groups[number[next(iter(each))]].append(pair)
    return groups.values()


def _function_change(pairs: Sequence[Pair], rows: int, slowdown: float, longer: float) -> FunctionChange:
    """Compare the statements of functions that belong together; `rows` is the number of all statements.

    `longer` is how many times as often the lines ran after.
    """
    before = tuple({one.function.name: one.function for _, one, _ in pairs if one}.values())
    after = tuple({other.function.name: other.function for _, _, other in pairs if other}.values())
    inside = _calls_inside([one for _, one, _ in pairs if one], before)
    inside |= _calls_inside([other for _, _, other in pairs if other], after)
    changes = []
    for kind, one, other in pairs:
        old, new = _times(one, inside), _times(other, inside)
        old, new = old or [0.0] * len(new), new or [0.0] * len(old)
        row, new_row = one.row if one else None, other.row if other else None
        as_often = bool(row and new_row and row.hits == new_row.hits)
        if longer != 1 and row:
            untouched = kind in ("same", "moved") and new_row and row.hits and new_row.hits
            ratio = new_row.hits / row.hits if untouched and new_row else longer
            old, as_often = [ratio * each for each in old], as_often or bool(untouched)
        is_noise = bool(noise.change(old, new).is_noise(rows))
        before_s, after_s = mean(old), mean(new)
        as_untouched = slowdown != 1 and as_often and _is_close(after_s, before_s * slowdown)
        changes.append(RowChange(kind, row, new_row, before_s, after_s, is_noise, as_untouched))
    changes.sort(key=lambda change: getattr(change.after or change.before, "first", 0))
    return FunctionChange(before, after, changes)


def _is_close(one: float, other: float) -> bool:
    return max(one, other) <= MIN_SLOWDOWN * min(one, other)


def _times(timed: _TimedRow | None, inside: Mapping[_TimedRow, list[float]]) -> list[float]:
    """The times of a row in each run, without those of functions that were split off; none if there is no row."""
    if timed is None or timed not in inside:
        return timed.seconds if timed else []
    return [max(0.0, whole - other) for whole, other in zip(timed.seconds, inside[timed], strict=True)]


def _calls_inside(rows: Sequence[_TimedRow], functions: Sequence[Function]) -> dict[_TimedRow, list[float]]:
    """Return the time that the row of a call has, in each run, for another of these functions.

    A function that was split from another one counts by itself, and the line that calls it counts it again.
    """
    found: dict[_TimedRow, list[float]] = {}
    for function in functions if len(functions) > 1 else ():
        of_rows = [row.seconds for row in rows if row.function == function]
        together = [sum(of_run) for of_run in zip(*of_rows, strict=True)]
        call = calls_of([function])
        callers = [row for row in rows if row.function != function and call.search(row.row.text)]
        if len(callers) == 1 and sum(callers[0].seconds) >= sum(together):
            known = found.get(callers[0], [0.0] * len(together))
            found[callers[0]] = [one + other for one, other in zip(known, together, strict=True)]
    return found
