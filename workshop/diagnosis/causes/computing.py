"""Calls that make the same again, are made for each of many rows or modules, or make something much too large."""

from collections.abc import Callable
from enum import Enum, auto

from workshop.diagnosis.call_words import LARGE_INTERMEDIATE, SAME_AGAIN, TINY_OPERATORS, large, often, same
from workshop.diagnosis.findings import MIN_SHARE_OF_STEP, Finding, finding, gain_of
from workshop.diagnosis.hot_calls import HotCall, HotCalls
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.timeline import StepSample, Timeline
from workshop.diagnosis.tried import TriedChange, finding_of, tried_changes
from workshop.diagnosis.user_lines import MAIN_SHARE, Path, Place, place_of
from workshop.diagnosis.watched_lines import loop_around, loops_around
from workshop.probe.cause import Cause, Half
from workshop.probe.phases import Phase

SMALL_MODULES = Cause(
    TINY_OPERATORS.name,
    "Modules of the same shapes are called one after the other, each with small operators: call all of them at once, "
    "with torch.func.stack_module_state and vmap, or with one batched product a layer. Tried: {before_ms:.2f} ms "
    "became {after_ms:.2f}. {results}",
    half=Half.LAUNCHES,
)


class Waste(Enum):
    """What a call does in vain."""

    AGAIN = auto()
    """It makes what it has made before."""
    ROWS = auto()
    """It is made for each of many rows, or numbers, or each time for more of them."""
    LARGE = auto()
    """It makes something much larger than what goes in."""


def wasteful_calls(timeline: Timeline, samples: list[StepSample]) -> tuple[list[Finding], list[StepSample]]:
    """Return the calls that make the same again, one of many rows, or much too much; and the samples of all others."""
    calls, found = HotCalls(timeline.measurement.observations), list[Finding]()
    modules = _small_modules(timeline.measurement)
    items = [each for each in samples if each.phase == Phase.DATA_WAIT and not each.is_own]
    samples = [each for each in samples if each.phase != Phase.DATA_WAIT or each.is_own]
    for path, call in calls.paths([(each.path, each.weight_s) for each in samples]):
        waste = _waste_of(timeline, call, calls.is_in_each_step(path[-1]))
        if waste is None:
            continue
        within = _group(timeline, calls, call, waste, samples)
        is_here = [any(map(within, map(place_of, each.path))) for each in samples]
        here = [each for each, is_one in zip(samples, is_here, strict=True) if is_one]
        if timeline.share(sum(each.weight_s for each in here)) < MIN_SHARE_OF_STEP:
            continue  # it is in a call that is found already
        if not any(call.place in map(place_of, each.path) for each in here):
            continue
        samples = [each for each, is_one in zip(samples, is_here, strict=True) if not is_one]
        if modules and waste is Waste.ROWS:
            found.append(_of_modules(modules, path))
            modules = None
        else:
            found.append(_of_call(timeline, calls, path, call, waste, here, within))
    return [*found, *([_of_modules(modules, ())] if modules else [])], [*samples, *items]


def _of_call(
    timeline: Timeline,
    calls: HotCalls,
    path: Path,
    call: HotCall,
    waste: Waste,
    here: list[StepSample],
    within: Callable[[Place], bool],
) -> Finding:
    """Return the finding of a call, with the other lines of its loop, or of its function, that do the same."""
    by_line = dict[int, float]()
    for each in here:
        places = [place for place in map(place_of, each.path) if within(place)]
        _, line = call.place if call.place in places else places[0]
        by_line[line] = by_line.get(line, 0.0) + timeline.share(each.weight_s)
    alike = [one for one in calls.within(lambda place: within(place) and place[1] in by_line) if one.is_on_rows]
    as_often = [one for one in alike if one.times >= call.times]
    clearest = max(as_often, key=lambda one: (one.knows_whole, one.has_rows), default=call)
    share = by_line.pop(call.place[1])
    calling, in_backward = path, 0.0 if waste is Waste.AGAIN else _in_backward(timeline, within)
    match waste:
        case Waste.AGAIN:
            calling = path if call.is_same_each_step else _repeated_from(calls, path)
            cause, words = SAME_AGAIN, same(call, is_called=calling != path)
        case Waste.ROWS:
            cause, words = often(clearest, "a step" if calls.is_in_each_step(path[-1]) else "in each step that does it")
        case Waste.LARGE:
            cause, words = LARGE_INTERMEDIATE, large(call, calls.readers(call))
    saved = call.saved if waste is not Waste.LARGE else 1.0
    part = (share + sum(by_line.values()) + in_backward) * saved
    phases = {each.phase for each in here}
    return finding(
        cause,
        words,
        gain=gain_of(1.0, 1.0 - part),
        phase=phases.pop() if len(phases) == 1 and not in_backward else "",
        path=calling,
        ms_a_step=(share + in_backward) * timeline.measurement.steps.ms_a_step,
        share=share + in_backward,
        beside={number: each for number, each in sorted(by_line.items()) if each >= MIN_SHARE_OF_STEP},
    )


def _repeated_from(calls: HotCalls, path: Path) -> Path:
    """Return the way down to the outermost statement that runs several times in a step, or has several turns."""
    times = [call.times if (call := calls.at(frame)) else 0.0 for frame in path]
    return path[: next((number for number, each in enumerate(times, start=1) if each >= 2.0), len(path))]


def _waste_of(timeline: Timeline, call: HotCall, in_each_step: bool) -> Waste | None:
    """Return what a call does in vain; of what is large and made now and then, how often it is made counts for more."""
    if call.is_same_again:
        return Waste.AGAIN
    if (call.is_on_rows or call.goes_on) and not _is_of_training(timeline, call):
        return Waste.ROWS
    return Waste.LARGE if in_each_step and call.expands else None


def _group(
    timeline: Timeline, calls: HotCalls, call: HotCall, waste: Waste, samples: list[StepSample]
) -> Callable[[Place], bool]:
    """Return what tells the lines that make one fault with a call: of its loop or, of what is the same, beside it.

    The loop is the outermost that has most of its time in the one inside of it, and is not that of the training.
    """
    path, line = call.place
    if waste is Waste.LARGE:
        readers = [each.place for each in calls.readers(call)]
        return lambda place: place == call.place or place in readers
    if call.is_same_each_step or not call.is_run_often:
        return lambda place: place == call.place or calls.are_alike(place, call)
    first, last, inner_s = line, line, 0.0
    for loop in loops_around(path, line):
        here = range(loop.lineno, (loop.end_lineno or 0) + 1)
        in_loop = (each for each in samples if any(one.path == path and one.line in here for one in each.path))
        loop_s = sum(each.weight_s for each in in_loop)
        if inner_s < MAIN_SHARE * loop_s * bool(inner_s) or timeline.trains_within(path, here[0], here[-1]):
            break
        first, last, inner_s = here[0], here[-1], loop_s
    return lambda place: place[0] == path and first <= place[1] <= last


def _is_of_training(timeline: Timeline, call: HotCall) -> bool:
    """Whether the loop in which a statement is run is that of the training, or of the parts of a batch."""
    loop = loop_around(*call.place) if call.is_run_often else None
    return loop is not None and timeline.trains_within(call.place[0], loop.lineno, loop.end_lineno or 0)


def _in_backward(timeline: Timeline, within: Callable[[Place], bool]) -> float:
    """Return the share of a step that the backward pass takes for some lines of the forward pass.

    What has no line, such as the start of the first pass, is left out.
    """
    observations = timeline.measurement.observations
    parts = [
        (each[0], observations.user_frames_of(each[2])) for one in observations.backward_passes for each in one.parts
    ]
    of_lines = sum(seconds for seconds, frames in parts if any(map(within, map(place_of, frames))))
    of_all = sum(seconds for seconds, frames in parts if frames)
    return of_lines / (of_all or 1.0) * timeline.steps.share(Phase.BACKWARD)


def _small_modules(measurement: Measurement) -> TriedChange | None:
    """Return the trial that called modules of the same shapes at once, if it was faster."""
    return next((each for each in tried_changes(measurement) if each.name == "small-modules" and each.has_effect), None)


def _of_modules(change: TriedChange, path: Path) -> Finding:
    before_ms, after_ms = change.trial.as_it_is_s * 1e3, change.trial.changed_s * 1e3
    words = SMALL_MODULES.words.format(before_ms=before_ms, after_ms=after_ms, results=change.results).strip()
    return finding_of(change, SMALL_MODULES, words, path)
