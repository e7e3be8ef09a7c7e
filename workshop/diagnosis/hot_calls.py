"""What hot calls do, as it was watched: the same again, the same for each of many rows, or something new each time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workshop.diagnosis.samples import Observations
from workshop.diagnosis.timeline import StepSample
from workshop.diagnosis.user_lines import Path, Place, place_of
from workshop.diagnosis.watched_lines import called, carried, following, watched_line
from workshop.notebooks.cell_places import line_of
from workshop.probe.cause import Cause, Half
from workshop.probe.observations import LineRuns, Operand
from workshop.profiles.stacks import Frame

SAME_AGAIN = Cause(
    "same-again",
    "{often} {what} makes the same: {made}. {advice} Where that is changed in place, change a copy.",
)
TINY_OPERATORS = Cause(
    "tiny-operators",
    "This runs {times:.0f} times a step, each time on {rows}: unless a run needs what the one before has made, call it "
    "once for all of them.",
    half=Half.LAUNCHES,
)

LARGE_INTERMEDIATE = Cause(
    "large-intermediate",
    "This makes {made} of {given}{left}: where another operator gives the same without that, such as a matrix product, "
    "torch.cdist or gather, use it.",
)

KEPT = (
    " It makes {whole} ({made}), of which line {line} keeps {part}: where each row is computed by itself, choose first."
)

COPIES = " It copies all of `{name}` ({whole}) to add {added}: append to a list, and join that where all is read."

ON_NUMBERS = Cause(
    "own-work",
    "This runs {times:.0f} times a step, each time on single numbers, such as {rows}: operators on whole arrays do all "
    "of them in a few calls.",
)
SERIES = (
    "This gives `{layer}` one step of a series at a time, {times:.0f} times a step of the training: give it all of the "
    "series at once."
)

MUCH = 8
"""The factor, at least, by which one size is much larger than another."""

MANY_RUNS = 16
"""Fewer runs in a step than these may be the model's successive layers, not a loop over rows."""

SMALL_BYTES = 16384
"""What an operator of torch reads in about the time that it takes to call it, a microsecond or two."""

NUMBER_BYTES = 16
"""The largest number that is no row: a complex one."""

TELLING_BYTES = 64
"""Bytes, at least, of what is no coincidence if it is the same again: more than a few numbers."""


@dataclass(frozen=True)
class HotCall:
    """What a statement was seen to do."""

    seen: LineRuns

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
        """Whether one of both is so."""
        return self.is_same_each_step or self.is_same_in_step

    @property
    def saved(self) -> float:
        """The share of its time that it would not take, if it made nothing again."""
        if self.is_same_each_step:
            return 1.0
        if self.is_same_in_step:
            return (1.0 - 1.0 / self.runs) * min(same / known for same, known in (each.same_run for each in self.made))
        return 1.0 - 1.0 / self.times

    def _made_same(self, made: list[tuple[int, int]]) -> bool:
        is_plain = not self.seen.draws and not any(each.learned for each in self.seen.writes)
        return is_plain and bool(made) and all(same > max(1, known / 2) for same, known in made)

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
        needed = carried(*self.place) if self.is_run_often else frozenset[str]()
        state = {each.name for each in self.seen.writes} if self.series else set[str]()
        sizes = [self._size(each) for each in self.given if each.name not in state]
        return max(sizes, default=0.0) <= SMALL_BYTES and not needed - state

    @property
    def expands(self) -> bool:
        """Whether it makes something much larger than all that goes into it, and calls nothing that has more."""
        if not self.made or not self._given_bytes or self._largest.size <= MUCH * self._given_bytes:
            return False
        return called(*self.place) <= {each.name for each in self.seen.reads if each.memory}

    @property
    def _given_bytes(self) -> int:
        given = sum(each.size for each in self.given)
        return given if given >= TELLING_BYTES else 0

    @property
    def _largest(self) -> Operand:
        return max(self.made, key=lambda each: each.size)

    def reads_from(self, other: "HotCall") -> bool:
        """Return whether it reads most of the largest that another makes, in the same file."""
        made = other._largest
        return self.seen.file == other.seen.file and any(
            (each.memory == made.memory != 0 or each.name == made.name) and 2 * each.size > made.size
            for each in self.seen.reads
        )

    def large(self, readers: list["HotCall"]) -> str:
        """Say what large thing it makes, and what the lines that read it make of that."""
        left = [(each.seen.line, made) for each in readers for made in each.made]
        line, least = min(left, key=lambda each: each[1].size, default=(0, self._largest))
        says = f", of which line {line} makes {_in_words(least)}" if MUCH * least.size < self._largest.size else ""
        return LARGE_INTERMEDIATE.words.format(
            made=_in_words(self._largest), given=in_bytes(self._given_bytes), left=says
        )

    @property
    def series(self) -> str:
        """The name of a recurrent layer that it gives one step at a time; empty if there is none."""
        return next((each.name for each in self.seen.reads if each.form in ("RNN", "LSTM", "GRU")), "")

    @property
    def why_often(self) -> tuple[Cause, str]:
        """The cause of a call that is made for one row, or one number, at a time, and what is said of it."""
        if self.series:
            return TINY_OPERATORS, SERIES.format(layer=self.series, times=self.times)
        cause = TINY_OPERATORS if self.has_rows else ON_NUMBERS
        return cause, cause.words.format(times=self.times, rows=self.rows)

    def _size(self, operand: Operand) -> float:
        """How much of an operand a run reads, or a turn of a comprehension."""
        return operand.size if self.is_run_often else operand.size * self.seen.runs / self.seen.turns

    @property
    def has_rows(self) -> bool:
        """Whether it reads rows of tensors or arrays, and not only numbers."""
        return any(map(self._has_rows, self.given))

    def _has_rows(self, operand: Operand) -> bool:
        """Whether it reads a row of this in a run or, of one with another number of rows than it has turns, more."""
        is_known = self.is_run_often or operand.length == round(self.seen.turns / self.seen.runs)
        least = NUMBER_BYTES if is_known else TELLING_BYTES
        return bool(operand.length and operand.memory) and self._size(operand) > least

    @property
    def knows_whole(self) -> bool:
        """Whether it is known what the rows are of."""
        return self.rows.startswith("1 of ")

    @property
    def rows(self) -> str:
        """What a run is on, in words: one of so many rows, if that is known."""
        if not self.is_run_often:
            entries = [each for each in self.given if each.length == round(self.seen.turns / self.seen.runs)]
            parts = f"a part of `{self.given[0].name}`"
            return ", ".join(f"1 of {each.length} entries of `{each.name}`" for each in entries[:2]) or parts
        changing = [each for each in self.given if each.same_run[0] < each.same_run[1]] or self.given
        for each in changing:
            whole = next((one for one in self.seen.reads if _is_entry(each, one)), None)
            if whole:
                return f"1 of {whole.length} entries of `{whole.name}` ({each.form}, {in_bytes(each.size)})"
        largest = max(changing, key=lambda each: each.size)
        return f"`{largest.name}` ({largest.form}, {in_bytes(largest.size)})"

    @property
    def says(self) -> str:
        """How often it is run, and on what, in words that stand in a sentence; empty if nothing is to be said."""
        often = f", {self.runs:.0f} times a step" if round(self.runs) > 1 else ""
        largest = max(self.given, key=lambda each: each.size, default=None)
        if largest is None or largest.size < TELLING_BYTES:
            return often
        new = ", new each time" if largest.same_step[0] == 0 < largest.same_step[1] else ""
        makes = f", and makes {_in_words(self._largest)}" if self.expands else ""
        return f"{often}, on `{largest.name}` ({largest.form}, {in_bytes(largest.size)}{new}){makes}"

    @property
    def grows(self) -> str:
        """Say what it copies to add a little to it; empty if it copies nothing so."""
        for each in self.made:
            times, added = each.grown
            if self.runs < 2 * times and MUCH * added < times * each.size:
                return COPIES.format(name=each.name, whole=in_bytes(each.size), added=in_bytes(added / times))
        return ""

    def same(self, is_called: bool = False) -> str:
        """Say what a call makes again, where it is found itself, or a line that it is called from."""
        made = ", ".join(map(_in_words, self.made[:2]))
        same, known = self.made[0].same_step if self.is_same_each_step else self.made[0].same_run
        if self.is_same_each_step and same < known:
            often, advice = f"In {same} of {known} runs", "An earlier step has made it: make each once, and keep it."
        elif self.is_same_each_step:
            in_step = f", {self.runs:.0f} times in each," if round(self.runs) > 1 else ""
            often, advice = f"In each of {self.seen.steps} steps{in_step}", "Make it once, before the loop."
        elif same < known:
            often = f"In {same} of {known} runs"
            advice = "An earlier run of the same step has made it: make each once a step, and keep it."
        else:
            often, advice = f"In each of {self.runs:.0f} runs in a step", "Make it once a step."
        what = f"{line_of(*self.place)}, which is called here," if is_called else "this"
        return SAME_AGAIN.words.format(often=often, what=what, made=made, advice=advice)


def in_bytes(size: float) -> str:
    """Return a number of bytes in words."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _is_data(operand: Operand) -> bool:
    return operand.size > 0 and operand.form not in ("str", "bytes", "NoneType", "bool")


def _is_entry(part: Operand, whole: Operand) -> bool:
    """Whether it is one row or entry of something: of a tensor, one that is as long along all other dimensions."""
    shapes = [each.form.partition("[")[2].rstrip("]").split(", ") for each in (part, whole)]
    is_row = not whole.memory or shapes[0] in (shapes[1][1:] or [""], ["1", *shapes[1][1:]])
    return part.name.startswith(f"{whole.name}[") and whole.length > 0 and is_row


def _in_words(operand: Operand) -> str:
    return f"{_named(operand)} ({operand.form}, {in_bytes(operand.size)})"


def _named(operand: Operand) -> str:
    return "what it returns" if operand.name == "return" else f"`{operand.name}`"


class HotCalls:
    """What was seen of the statements that were watched in the training, or `while_loading` in a process of its own."""

    def __init__(self, observations: Observations, while_loading: bool = False) -> None:
        runs = [each for each in observations.line_runs if each.steps and (each.pid != each.trainer) == while_loading]
        self._seen = {(each.file, each.line): HotCall(each) for each in runs}
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
        beside = {each.lineno for each in (following(*call.place), following(*place)) if each}
        is_beside = place[0] == call.place[0] and bool(beside.intersection((place[1], call.place[1])))
        return other is not None and is_beside and other.is_same_each_step and call.is_same_each_step

    def within(self, are: Callable[[Place], bool]) -> list[HotCall]:
        """Return those of the calls that are in some places."""
        return [call for place, call in self._seen.items() if are(place)]

    def readers(self, call: HotCall) -> list[HotCall]:
        """Return the calls that read the largest that a call makes."""
        return [each for each in self._seen.values() if each is not call and each.reads_from(call)]

    def wasted_at(self, frame: Frame) -> str:
        """Say what a line copies to add to it, or what the next one keeps of what it makes, if that is a small part."""
        call, behind = self.at(frame), following(*place_of(frame))
        after = self._seen.get((frame.path, behind.lineno)) if behind else None
        if call is None or call.grows or after is None:
            return call.grows if call else ""
        for made in call.made:
            kept = [each for each in (*after.seen.reads, *after.seen.writes) if each.memory == made.memory != 0]
            least = min((each.size for each in kept), default=made.size)
            if least < made.size / 2:
                return KEPT.format(
                    made=_named(made), whole=in_bytes(made.size), line=after.seen.line, part=in_bytes(least)
                )
        return ""

    def paths(self, samples: list[StepSample]) -> Iterator[tuple[Path, HotCall]]:
        """Yield each statement on the way of some samples that was watched, those with most time first."""
        weights, paths = dict[Place, float](), dict[Place, Path]()
        for sample in samples:
            places = {place_of(frame): number for number, frame in enumerate(sample.path, start=1)}
            for place, number in places.items():
                weights[place] = weights.get(place, 0.0) + sample.weight_s
                paths.setdefault(place, sample.path[:number])
        for place in sorted(weights, key=weights.__getitem__, reverse=True):
            if place in self._seen:
                yield paths[place], self._seen[place]
