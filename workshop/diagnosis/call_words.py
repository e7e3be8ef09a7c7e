"""What hot calls do, in words, and what to do about it."""

from dataclasses import replace

from workshop.diagnosis.hot_calls import MUCH, TELLING_BYTES, HotCall, HotCalls
from workshop.diagnosis.user_lines import Path
from workshop.notebooks.cell_places import line_of
from workshop.probe.cause import Cause, Half
from workshop.probe.observations import LargestMade, Operand
from workshop.profiles.stacks import Frame

SAME_AGAIN = Cause(
    "same-again",
    "{often} {what} makes the same: {made}. {advice} Where that is changed in place, change a copy.",
)
TINY_OPERATORS = Cause(
    "tiny-operators",
    "This runs {times:.0f} times {during}, each time on {rows}: unless a run needs what the one before has made, "
    "call it once for all of them.",
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

AGAIN_BY_ROW = (
    "Of {rows} rows that this makes, about {different:.0f} differ: {made}. Where each row is computed by itself, make "
    "each once, and pick them by an index."
)

GOES_ON = Cause(
    "growing-input",
    "This runs {times:.0f} times {during}, each time on more: {given} at last. What was there in the run before is "
    "gone through again: where a layer can go on from a state, keep that, and give it only what is new.",
)

INSIDE = " In it, line {line} takes most{says}."
LONGER = (
    " `{name}` is longer each time: where this goes through all of it, do that once in the end, or go on from what it "
    "has made before."
)

ARRAYS = (
    " torch goes through the {number} arrays of `{name}` number by number: join them first, as in "
    "torch.from_numpy(numpy.stack({name}))."
)

WRITES = " It writes {size} to files each time. Written less often, less is kept."

SHRINKS = " It makes {made} of {given}: where that is a part of it, take the part first."

COPIES = " It copies all of `{name}` ({whole}) to add {added}: append to a list, and join that where all is read."

ON_NUMBERS = Cause(
    "own-work",
    "This runs {times:.0f} times {during}, each time on single numbers, such as {rows}: operators on whole arrays do "
    "all of them in a few calls.",
)
SERIES = (
    "This gives `{layer}` one step of a series at a time, {times:.0f} times a step of the training: give it all of the "
    "series at once."
)


def says(call: HotCall | None) -> str:
    """Say how often a call is made, and on what, in words that stand in a sentence; empty if nothing is to be said."""
    if call is None:
        return ""
    often = f", {call.runs:.0f} times a step" if round(call.runs) > 1 else ""
    largest = max(call.given, key=lambda each: each.size, default=None)
    if largest is None or largest.size < TELLING_BYTES:
        return often
    new = ", new each time" if largest.same_step[0] == 0 < largest.same_step[1] else ""
    made = max(call.made, key=lambda each: each.size, default=largest)
    is_other = made.size > MUCH * largest.size or MUCH * made.size < largest.size
    makes = f", and makes {_in_words(made)}" if is_other else ""
    return f"{often}, on `{largest.name}` ({largest.form}, {in_bytes(largest.size)}{new}){makes}"


def same(call: HotCall, is_called: bool = False) -> str:
    """Say what a call makes again, where it is found itself, or a line that it is called from."""
    if not (call.is_same_each_step or call.is_same_in_step) and (rows := call.again_by_row):
        different = rows.length * rows.different[0] / rows.different[1]
        return AGAIN_BY_ROW.format(rows=rows.length, different=different, made=_in_words(rows))
    again, known = call.made[0].same_step if call.is_same_each_step else call.made[0].same_run
    if call.is_same_each_step and again < known:
        often, advice = f"In {again} of {known} runs", "An earlier step has made it: make each once, and keep it."
    elif call.is_same_each_step:
        in_step = f", {call.runs:.0f} times in each," if round(call.runs) > 1 else ""
        often, advice = f"In each of {call.seen.steps} steps{in_step}", "Make it once, before the loop."
    elif again < known:
        often = f"In {again} of {known} runs"
        advice = "An earlier run of the same step has made it: make each once a step, and keep it."
    else:
        often, advice = f"In each of {call.runs:.0f} runs in a step", "Make it once a step."
    what = f"{line_of(*call.place)}, which is called here," if is_called else "this"
    return SAME_AGAIN.words.format(often=often, what=what, made=", ".join(map(_in_words, call.made[:2])), advice=advice)


def often(call: HotCall, during: str = "a step") -> tuple[Cause, str]:
    """Return the cause of a call that is made for one row, or one number, at a time, and what is said of it.

    Args:
        call: the call.
        during: what it is made in so many times.
    """
    if call.longer and call.goes_on:
        return GOES_ON, GOES_ON.words.format(times=call.times, during=during, given=_in_words(call.longer))
    if call.series:
        # The operators of such a layer are long by what each call of them prepares, which the launches do not count.
        return replace(TINY_OPERATORS, half=None), SERIES.format(layer=call.series, times=call.times)
    cause = TINY_OPERATORS if call.has_rows else ON_NUMBERS
    return cause, cause.words.format(times=call.times, during=during, rows=_rows(call))


def _rows(call: HotCall) -> str:
    """What a run is on: one of so many rows, if that is known."""
    if not call.is_run_often:
        entries = [f"1 of {each.length} entries of `{each.name}`" for each in call.entries[:2]]
        return ", ".join(entries) or f"a part of `{call.given[0].name}`"
    if call.row_of:
        row, whole = call.row_of
        return f"1 of {whole.length} entries of `{whole.name}` ({row.form}, {in_bytes(row.size)})"
    return _in_words(max(call.changing, key=lambda each: each.size))


def large(call: HotCall, readers: list[HotCall]) -> str:
    """Say what large thing a call makes, and what the lines that read it make of that."""
    left = [(each.seen.line, made) for each in readers for made in each.made]
    line, least = min(left, key=lambda each: each[1].size, default=(0, call.largest))
    rest = f", of which line {line} makes {_in_words(least)}" if MUCH * least.size < call.largest.size else ""
    return LARGE_INTERMEDIATE.words.format(made=_in_words(call.largest), given=in_bytes(call.given_bytes), left=rest)


def wasted(calls: HotCalls, frame: Frame) -> str:
    """Say what a line does in vain: what it copies, makes too much of, or goes through again, and what it writes."""
    call = calls.at(frame)
    if call and (each := call.copied):
        return COPIES.format(name=each.name, whole=in_bytes(each.size), added=in_bytes(each.grown[1] / each.grown[0]))
    if kept := calls.kept_of(frame):
        made, after, size = kept
        whole, part = in_bytes(made.size), in_bytes(size)
        return KEPT.format(made=_named(made), whole=whole, line=after.seen.line, part=part)
    if call and (both := call.shrinks):
        return SHRINKS.format(made=in_bytes(both[0].size), given=in_bytes(both[1].size))
    if call and (each := call.arrays):
        return ARRAYS.format(number=each.length, name=each.name)
    if call and call.writes_files:
        return WRITES.format(size=in_bytes(call.seen.written))
    if call and (each := call.longer) and each.size >= TELLING_BYTES:
        return LONGER.format(name=each.name)
    return ""


def inside(calls: HotCalls, line: Path, paths: list[tuple[Path, float]]) -> str:
    """Say which statement that a line calls takes most of some samples, and what it does; empty if none is known."""
    frame = calls.inside(line, paths)
    found = calls.at(frame) if frame else None
    if frame is None or found is None:
        return ""
    return INSIDE.format(line=found.place[1], says=says(found)) + wasted(calls, frame)


def in_bytes(size: float) -> str:
    """Return a number of bytes in words."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _in_words(made: Operand | LargestMade) -> str:
    name = f"{_named(made)} ({made.form}, " if isinstance(made, Operand) else f"in between, {made.form} ("
    return f"{name}{in_bytes(made.size)})"


def _named(operand: Operand) -> str:
    return "what it returns" if operand.name == "return" else f"`{operand.name}`"
