"""What hot calls do, as it was watched: the same again, the same for each of many rows, or something new each time.

In words: `call_words.py`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workshop.diagnosis.samples import Observations
from workshop.diagnosis.user_lines import Path, Place, place_of
from workshop.diagnosis.watched_lines import (
    carried,
    converted,
    following,
    goes_round,
    multiplies,
    needed,
    reader_behind,
    watched_line,
)
from workshop.probe.observations import ARRAYS, LargestMade, LineRuns, Operand
from workshop.profiles.stacks import Frame

NOTHING = Operand("", "", 0, 0, False, 0, (0, 0), (0, 0))

MUCH = 8
"""The factor, at least, by which one size is much larger than another."""

MANY_RUNS = 16
"""Fewer runs in a step than these may be the model's successive layers, not a loop over rows."""

SMALL_BYTES = 16384
"""What an operator of torch reads in about the time that it takes to call it, a microsecond or two."""

TELLING_BYTES = 64
"""Bytes, at least, of what is no coincidence if it is the same again: more than a few numbers."""


@dataclass(frozen=True)
class HotCall:
    """What a statement was seen to do."""

    seen: LineRuns
    within: LargestMade | None = None
    """The largest that an operator makes in it; None if that is not known."""

    @property
    def place(self) -> Place:
        """Where it is."""
        return self.seen.file, self.seen.line

    @property
    def runs(self) -> float:
        """How often it is run in a step, of those in which it is."""
        return self.seen.runs / max(self.seen.steps, 1)

    @property
    def is_run_often(self) -> bool:
        """Whether it is the statement that is run so often, and not a comprehension inside of it."""
        return self.runs >= MANY_RUNS and self.seen.turns < MANY_RUNS * self.seen.runs

    @property
    def times(self) -> float:
        """How often a step does what it does: the runs or, of a comprehension that is seldom run, the turns."""
        return self.runs if self.is_run_often else max(self.runs, self.seen.turns / max(self.seen.steps, 1))

    @property
    def made(self) -> list[Operand]:
        """What it writes that says something: no single numbers, no texts."""
        return [each for each in self.seen.writes if _is_data(each) and each.size >= TELLING_BYTES]

    @property
    def given(self) -> list[Operand]:
        """What it reads that is data: no texts, no models, and nothing of which it reads or writes only an entry."""
        line = watched_line(*self.place)
        names = (*line.reads, *line.writes) if line else ()
        wholes = {each.name for each in self.seen.reads if any(name.startswith(f"{each.name}[") for name in names)}
        return [each for each in self.seen.reads if _is_data(each) and each.name not in wholes]

    @property
    def is_same_each_step(self) -> bool:
        """Whether it made the same in most runs as in earlier steps, though the parameters changed in between."""
        return self._made_same([each.same_step for each in self.made])

    @property
    def is_same_in_step(self) -> bool:
        """Whether it made the same in most runs as in earlier ones of the same step."""
        return self._made_same([each.same_run for each in self.made])

    @property
    def is_same_again(self) -> bool:
        """Whether one of both is so, or it makes each of its rows several times."""
        return self.is_same_each_step or self.is_same_in_step or self.again_by_row is not None

    @property
    def saved(self) -> float:
        """The share of its time that it would not take, if it made nothing again."""
        if self.is_same_each_step:
            return 1.0
        if self.is_same_in_step:
            return (1.0 - 1.0 / self.runs) * min(same / known for same, known in (each.same_run for each in self.made))
        if rows := self.again_by_row:
            return 1.0 - rows.different[0] / rows.different[1]
        return 1.0 - (2.0 / (self.runs + 1.0) if self.goes_on else 1.0 / self.times)

    def _made_same(self, made: list[tuple[int, int]]) -> bool:
        is_plain = not self.seen.draws and not any(each.learned for each in self.seen.writes)
        return is_plain and bool(made) and all(same > max(1, known / 2) for same, known in made)

    @property
    def again_by_row(self) -> Operand | None:
        """What it makes with each row several times, without gradients, if there is such."""
        found = [each for each in self.made if 2 * each.different[0] < each.different[1]]
        is_plain = not self.seen.draws and not any(each.learned for each in self.seen.writes)
        return max(found, key=lambda each: each.size) if found and is_plain else None

    @property
    def has_no_weights(self) -> bool:
        """Whether neither weights go into it nor gradients come out of it, though they are switched on."""
        learned = any(each.learned for each in (*self.seen.reads, *self.seen.writes))
        return self.seen.with_gradients and bool(self.made) and not learned

    @property
    def is_on_rows(self) -> bool:
        """Whether it is run many times in a step, each time on little, and none needs what the one before has made."""
        if self.times < MANY_RUNS or not self.given or self.is_same_in_step:
            return False
        if not (self.has_rows or self.is_plain) or not (self.is_run_often or goes_round(*self.place)):
            return False
        before = carried(*self.place) if self.is_run_often else frozenset[str]()
        state = {each.name for each in self.seen.writes} if self.series else set[str]()
        sizes = [self._size(each) for each in self.given if each.name not in state]
        return max(sizes, default=0.0) <= SMALL_BYTES and not before - state

    @property
    def longer(self) -> Operand | None:
        """What is longer in nearly each run than in the one before, if there is such."""
        found = [each for each in self.seen.reads if each.longer[0] > 0.9 * each.longer[1] and each.longer[1] >= MUCH]
        return max(found, key=lambda each: each.size, default=None)

    @property
    def goes_on(self) -> bool:
        """Whether it runs several times a step, each time on something longer."""
        return self.runs >= MUCH and self.longer is not None

    @property
    def expands(self) -> bool:
        """Whether it makes something much larger than all that goes into it, of which nothing is unknown.

        What a matrix product makes is no more than what it is called for.
        """
        is_product = isinstance(self.largest, Operand) and multiplies(*self.place)
        is_larger = bool(self.given_bytes) and self.largest.size > MUCH * self.given_bytes
        return is_larger and not is_product and self.is_plain

    @property
    def is_plain(self) -> bool:
        """Whether it is operators on tensors, arrays and numbers, all of which are known."""
        known = {each.name for each in self.seen.reads if each.size}
        of_tensors = tuple(f"{each.name}{mark}" for each in self.seen.reads if each.memory for mark in ".[")
        return all(name in known or name.startswith(of_tensors) for name in needed(*self.place))

    @property
    def given_bytes(self) -> int:
        """The size of all that it reads; 0 if that is next to nothing."""
        sizes = dict[int | str, int]()
        for each in self.seen.reads:  # one tensor may be read in several ways
            sizes[each.memory or each.name] = max(each.size, sizes.get(each.memory or each.name, 0))
        given = sum(sizes.values())
        return given if given >= TELLING_BYTES else 0

    @property
    def largest(self) -> Operand | LargestMade:
        """The largest that it makes, also within operators; what is read and written is none of it."""
        found: list[Operand | LargestMade] = [NOTHING, *self.made]
        if self.within and self.within.size > MUCH * sum(each.size for each in self.made):
            found.append(self.within)
        return max(found, key=lambda each: each.size)

    def reads_from(self, other: "HotCall") -> bool:
        """Return whether it reads most of the largest that another makes, in the same file, and no weights."""
        made = other.largest
        if not isinstance(made, Operand) or self.seen.file != other.seen.file:
            return False
        same = [each for each in self.seen.reads if each.memory == made.memory != 0 or each.name == made.name]
        return any(2 * each.size > made.size for each in same) and self.is_plain

    def picks_of(self, whole: Operand) -> bool:
        """Return whether it reads entries of something by an index."""
        line = watched_line(*self.place)
        return line is not None and any(each.startswith(f"{whole.name}[") for each in line.reads)

    @property
    def series(self) -> str:
        """The name of a recurrent layer that it gives one step at a time; empty if there is none."""
        return next((each.name for each in self.seen.reads if each.form in ("RNN", "LSTM", "GRU")), "")

    def _size(self, operand: Operand) -> float:
        """How much of an operand a run reads, or a turn of a comprehension."""
        return operand.size if self.is_run_often else operand.size * self.seen.runs / self.seen.turns

    @property
    def has_rows(self) -> bool:
        """Whether it reads rows of tensors or arrays, and not only numbers."""
        return any(map(self._has_rows, self.given))

    def _has_rows(self, operand: Operand) -> bool:
        """Whether it reads a row of this in a run or, of one with another number of rows than it has turns, more."""
        if not operand.length or not operand.memory:
            return False
        if not self.is_run_often and operand not in self.entries:
            return self._size(operand) > TELLING_BYTES
        row = _shape(operand)[0 if self.is_run_often else 1 :]
        return any(length not in ("", "1") for length in row)

    @property
    def row_of(self) -> tuple[Operand, Operand] | None:
        """What changes from run to run, and what it is one row or entry of; None if that is not known."""
        for each in self.changing if self.is_run_often else ():
            if whole := next((one for one in self.seen.reads if _is_entry(each, one)), None):
                return each, whole
        return None

    @property
    def changing(self) -> list[Operand]:
        """What it reads that is not always the same in a step; all of it, if nothing is."""
        return [each for each in self.given if each.same_run[0] < each.same_run[1]] or self.given

    @property
    def entries(self) -> list[Operand]:
        """What has as many rows as a comprehension has turns."""
        return [each for each in self.given if each.length == round(self.seen.turns / self.seen.runs)]

    @property
    def knows_whole(self) -> bool:
        """Whether it is known what the rows are of."""
        return self.row_of is not None if self.is_run_often else bool(self.entries)

    @property
    def shrinks(self) -> tuple[Operand, Operand] | None:
        """What it makes that is much smaller than the largest that it reads, and that; None if it makes more."""
        made = max(self.made, key=lambda each: each.size, default=None)
        given = max(self.given, key=lambda each: each.size, default=None)
        return (made, given) if made and given and MUCH * made.size < given.size else None

    @property
    def arrays(self) -> Operand | None:
        """The arrays of which it makes a tensor number by number, if there are such."""
        given, known = converted(*self.place), [each for each in self.seen.reads if each.form.endswith(ARRAYS)]
        return max((each for each in known if each.name in given), key=lambda each: each.size, default=None)

    @property
    def writes_files(self) -> bool:
        """Whether a run writes more to files than what measures it, or a line of a log."""
        return self.seen.written > SMALL_BYTES

    @property
    def copied(self) -> Operand | None:
        """What it copies to add a little to it, if there is such."""
        tensors = [each for each in self.made if "[" in each.form and 2 * each.longer[0] > each.longer[1] >= MUCH]
        grown = [each for each in tensors if 2 * each.grown[0] > each.longer[1]]
        return next((each for each in grown if MUCH * each.grown[1] < each.grown[0] * each.size), None)


def _is_data(operand: Operand) -> bool:
    return operand.size > 0 and operand.form not in ("str", "bytes", "NoneType", "bool")


def _shape(operand: Operand) -> list[str]:
    """Return the lengths along each dimension of a tensor or an array: [""] for a single number."""
    return operand.form.partition("[")[2].rstrip("]").split(", ")


def _is_entry(part: Operand, whole: Operand) -> bool:
    """Whether it is one row or entry of something: of a tensor, one that is as long along all other dimensions."""
    shapes = [_shape(part), _shape(whole)]
    is_row = not whole.memory or shapes[0] in (shapes[1][1:] or [""], ["1", *shapes[1][1:]])
    is_list = not whole.form.startswith("dict")
    return part.name.startswith(f"{whole.name}[") and whole.length > 0 and is_row and is_list


class HotCalls:
    """What was seen of the statements that were watched in the training, or `while_loading` in a process of its own."""

    def __init__(self, observations: Observations, while_loading: bool = False) -> None:
        runs = [each for each in observations.line_runs if each.steps and (each.pid != each.trainer) == while_loading]
        largest = sorted(observations.largest_by_line, key=lambda each: each[1].size)
        inner = {place_of(frames[-1]): made for frames, made in largest if frames}
        self._seen = {place: HotCall(each, inner.get(place)) for each in runs if (place := (each.file, each.line))}
        self._steps = max((each.steps for each in runs), default=0)

    def at(self, frame: Frame) -> HotCall | None:
        """Return what was seen of a frame's statement; None if it was not watched."""
        return self._seen.get(place_of(frame))

    def is_in_each_step(self, frame: Frame) -> bool:
        """Return whether a frame's statement was run in each step that was watched."""
        call = self.at(frame)
        return call is not None and call.seen.steps == self._steps

    def are_alike(self, place: Place, call: HotCall) -> bool:
        """Return whether another statement of the same file, near by, makes the same again as a call does."""
        other = self._seen.get(place)
        if other is None or not other.is_same_each_step:
            return False
        beside = {each.lineno for each in (following(*call.place), following(*place)) if each}
        is_beside = place[0] == call.place[0] and bool(beside.intersection((place[1], call.place[1])))
        return is_beside and call.is_same_each_step

    def within(self, are: Callable[[Place], bool]) -> list[HotCall]:
        """Return those of the calls that are in some places."""
        return [call for place, call in self._seen.items() if are(place)]

    def inside(self, line: Path, paths: list[tuple[Path, float]]) -> Frame | None:
        """Return the frame that a line calls whose statement takes most of some time; None if none was watched."""
        within = [(path[len(line) :], weight) for path, weight in paths if path[: len(line)] == line]
        return next((path[-1] for path, _ in self.paths(within)), None)

    def kept_of(self, frame: Frame) -> tuple[Operand, HotCall, int] | None:
        """Return what a line makes of which its reader keeps a part, that reader, and the bytes of that part."""
        call, behind = self.at(frame), reader_behind(*place_of(frame))
        after = self._seen.get((frame.path, behind)) if behind else None
        if call is None or after is None:
            return None
        for made in call.made:
            kept = [each for each in (*after.seen.reads, *after.seen.writes) if each.memory == made.memory != 0]
            least = min((each.size for each in kept), default=made.size)
            if least == made.size and after.picks_of(made) and after.made:
                least = sum(each.size for each in after.made)
            if least < made.size / 2:
                return made, after, least
        return None

    def readers(self, call: HotCall) -> list[HotCall]:
        """Return the calls that read the largest that a call makes."""
        return [each for each in self._seen.values() if each is not call and each.reads_from(call)]

    def paths(self, of: list[tuple[Path, float]]) -> Iterator[tuple[Path, HotCall]]:
        """Yield each statement on some ways that was watched, those with most time first."""
        weights, paths = dict[Place, float](), dict[Place, Path]()
        for path, weight in of:
            places = {place_of(frame): number for number, frame in enumerate(path, start=1)}
            for place, number in places.items():
                weights[place] = weights.get(place, 0.0) + weight
                paths.setdefault(place, path[:number])
        for place in sorted(weights, key=weights.__getitem__, reverse=True):
            if place in self._seen:
                yield paths[place], self._seen[place]
