"""Causes in what a script does beside loading and computing: in each step, or in every k-th, and what decides that."""

import ast
import linecache
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile

from workshop.diagnosis.call_words import inside, says, wasted
from workshop.diagnosis.causes.computing import wasteful_calls
from workshop.diagnosis.causes.growing_steps import growing_steps, may_grow
from workshop.diagnosis.findings import MIN_SHARE_OF_STEP, Finding, finding, gain_of
from workshop.diagnosis.hot_calls import HotCalls
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations
from workshop.diagnosis.timeline import LIBRARY, StepSample, Timeline
from workshop.diagnosis.user_lines import HotLine, Path, place_of, source_of
from workshop.diagnosis.watched_lines import loop_around
from workshop.notebooks.cell_places import place
from workshop.probe.cause import Cause
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame

FROM_CALL = "estimated from the time of the whole call that the line is in"

OWN_WORK = Cause(
    "own-work",
    "The training waits while this line runs{says}: this is where the time goes.{kept}{grows}",
)
OF_LIBRARY = Cause(
    "own-work",
    "The whole training is in this line: the time is what the library that it calls does between the phases, such as "
    "logging and callbacks. Let it do less of that.",
)
PERIODIC_WORK = Cause(
    "periodic-work",
    "This takes {each_ms:.0f} ms {when}{says}. Done less often, less is seen; where the model learns from it, less is "
    "learned.{kept}{decides}",
)
VALIDATION = Cause(
    "periodic-work",
    "This takes {each_ms:.0f} ms {when}{calls}. Done less often, or with less of it, less is seen; a learning rate or "
    "the end of the training may depend on it.{kept}{decides}",
)

MAX_SHARE_OF_STEPS = 0.67
"""Share of the steps, at most, that a line is in that is in every k-th of them, if it takes long enough to be seen."""

SEEN_MS = 30.0
"""Milliseconds of a line in a step, at least, with which it is sampled there nearly always."""

OF_VALIDATION = ("val_check_interval", "check_val_every_n_epoch", "eval_steps", "eval_strategy")
OF_OTHER = ("save_steps", "logging_steps", "log_every_n_steps", "save_strategy")
"""The settings of Lightning's Trainer and of TrainingArguments in transformers, the most telling first."""

LEAVES = (ast.Return, ast.Continue)


def other_work_findings(measurement: Measurement) -> list[Finding]:
    """Return the lines of user code that take time beside loading and computing, and those that take more and more."""
    timeline = Timeline(measurement)
    growing = growing_steps(timeline)
    named = {(each.file, each.line) for each in growing}
    rest = [
        each for each in timeline.samples if not named.intersection((frame.path, frame.line) for frame in each.path)
    ]
    wasteful, rest = wasteful_calls(timeline, rest)
    found = [*wasteful, *_between_phases(timeline, rest), *_in_forward(timeline, rest)]
    ways = [[(frame.path, frame.line) for frame in each.path] for each in timeline.samples]
    return [*growing, *(each for each in found if not _is_rest(each, found, ways))]


def _is_rest(found: Finding, others: list[Finding], ways: list[list[tuple[str, int | None]]]) -> bool:
    """Return whether a line has only what is left of its time, besides what it calls and another finding is about."""
    place = found.file, found.line
    larger = {(each.file, each.line) for each in others if each.share > found.share} - {place}
    return any(larger.intersection(way[way.index(place) :]) for way in ways if place in way)


def _between_phases(timeline: Timeline, samples: list[StepSample], most: int = 3) -> list[Finding]:
    """Lines between the phases and of the validation, each in every step or in some; `most` at most.

    A backward pass or an optimizer may have called them, as Lightning has its optimizers call a whole step.
    """
    between = [
        each
        for each in samples
        if each.phase in (Phase.OTHER, Phase.VALIDATION) or (each.is_own and each.phase in LIBRARY)
    ]
    ahead = [replace(each, path=_before_model(each.path)) for each in between if not timeline.computes(each)]
    found: list[Finding] = []
    for _ in range(most):
        line = timeline.hottest(ahead)
        if line is None or timeline.share(line.weight) < MIN_SHARE_OF_STEP:
            break
        here = [each for each in ahead if line.frame in each.path]  # whoever has called it
        ahead = [each for each in ahead if line.frame not in each.path]
        elsewhere = sum(each.weight_s for each in here if not line.holds(each.path))
        beside = _beside(timeline, line, ahead)
        ahead = [each for each in ahead if not beside.keys() & set(each.path)]
        of_call = max(line.of_call, line.weight + sum(beside.values())) + elsewhere
        line = replace(line, weight=line.weight + elsewhere, of_call=of_call, beside=beside)
        found.append(_finding_of(timeline, line, here))
    decided = [each.decided_in if each.phase == Phase.VALIDATION else None for each in found]
    return [  # one for each validation
        each for number, each in enumerate(found) if not decided[number] or decided[number] not in decided[:number]
    ]


def _beside(timeline: Timeline, line: HotLine, samples: list[StepSample]) -> dict[Frame, float]:
    """Return the time of the other lines of the same call or, of a function that trains, of the same loop."""
    name, path, at = line.frame.name, line.frame.path, line.frame.line or 0
    loop = loop_around(*place_of(line.frame))
    first, last = (loop.lineno, loop.end_lineno or 0) if loop else (at, at)
    if not timeline.trunk:  # steps too short to be sampled: any function may be the one that trains
        return {}
    if (name, path) not in timeline.trunk:
        first, last = 1, len(source_of(path).lines)
    elif timeline.trains_within(path, first, last):
        return {}
    found: Counter[Frame] = Counter()
    for sample in samples:
        for frame in [each for each in sample.path if (each.name, each.path) == (name, path)][:1]:
            found[frame] += sample.weight_s if first <= (frame.line or 0) <= last else 0.0  # type: ignore[assignment]
    return dict(+found)


def _before_model(path: Path) -> Path:
    """Return the frames down to the line that calls a model: what to validate is not decided in the model."""
    return tuple(takewhile(lambda frame: frame.name != "forward", path)) or path


def _finding_of(timeline: Timeline, line: HotLine, samples: list[StepSample]) -> Finding:
    """Return the finding about a line, which is in some steps or in all, of those samples that lead through it."""
    steps, within = timeline.steps, {each.step for each in samples}
    each_ms = line.weight / len(within) * 1e3
    validates = sum(each.weight_s for each in samples if each.phase == Phase.VALIDATION) > line.weight / 2
    calls = HotCalls(timeline.measurement.observations)
    seen = calls.at(line.frame)
    is_seldom = len(within) <= MAX_SHARE_OF_STEPS * steps.count and each_ms > SEEN_MS
    is_seldom &= not calls.is_in_each_step(line.frame)
    cause = VALIDATION if validates else PERIODIC_WORK if is_seldom else OWN_WORK
    if timeline.trains(line) and not validates:
        cause = OF_LIBRARY
    decides, spent_s, of_call_s = None, line.weight, line.of_call
    if cause in (VALIDATION, PERIODIC_WORK):
        decides = decided_by(timeline.measurement.observations, line.path, validates)
        if validates and decides:  # all of the validation is done as often
            spent_s = max(spent_s, steps.phases_s[Phase.VALIDATION])
            of_call_s = max(of_call_s, spent_s)
        of_period = _of_whole_periods(timeline, samples)
        spent_s, of_call_s = of_period * spent_s, of_period * of_call_s
    words = cause.words.format(
        says=says(seen),
        kept=wasted(calls, line.frame) or inside(calls, line.path, [(each.path, each.weight_s) for each in samples]),
        each_ms=each_ms,
        when=_when(within, steps.count, is_seldom),
        calls=_calls(timeline, line),
        decides=_decides(decides, line) if decides else "",
        grows=may_grow(timeline, line, samples) if cause is OWN_WORK else "",
    )
    return finding(
        cause,
        words,
        decided_in=(decides.path, decides.line or 0) if decides else None,
        gain=gain_of(1.0, 1.0 - timeline.share(of_call_s)),
        basis=FROM_CALL,
        margin=1.0 if validates and decides else None,
        phase=Phase.VALIDATION if validates else _main_phase(samples),
        path=line.path,
        ms_a_step=spent_s / steps.count * 1e3,
        share=timeline.share(spent_s),
        beside=_shares(timeline, line),
    )


def _main_phase(samples: list[StepSample]) -> str:
    """Return the phase that most time of some samples counts to."""
    weights: Counter[str] = Counter()
    for each in samples:
        weights[each.phase] += each.weight_s  # type: ignore[assignment]
    return weights.most_common(1)[0][0]


def _shares(timeline: Timeline, line: HotLine) -> dict[int, float]:
    """Return the shares of the other lines of a call or a loop, by their numbers."""
    shares = {frame.line or 0: timeline.share(weight) for frame, weight in line.beside.items()}
    return {number: share for number, share in sorted(shares.items()) if share >= MIN_SHARE_OF_STEP}


def _when(within: set[int], count: int, is_seldom: bool) -> str:
    """Say in which steps a line is, by their numbers."""
    if len(within) == 1 < count:
        return f"once in {count} steps"
    period = (max(within) - min(within)) / max(len(within) - 1, 1)
    every = max(1 + is_seldom, round(max(period, count / (len(within) + 1))))  # the latter where they come in a row
    ending = "th" if 10 < every % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(every % 10, "th")
    return f"in every {every}{ending} step" if every > 1 else "in every step"


def _calls(timeline: Timeline, line: HotLine) -> str:
    """Say from where the validation is called that a line is in."""
    loops = (frame for frame in reversed(line.path[:-1]) if (frame.name, frame.path) in timeline.trunk)
    return next((f", in the validation that {frame.name} calls in line {frame.line}" for frame in loops), "")


def _decides(decides: Frame, line: HotLine) -> str:
    """Say which line decides how often, if it is another one."""
    if decides == line.frame:
        return ""
    where = f"Line {decides.line}" if decides.path == line.frame.path else place(decides.path, decides.line, path=True)
    return f" {where} decides how often: {linecache.getline(decides.path, decides.line or 0).strip()}"


def _of_whole_periods(timeline: Timeline, samples: list[StepSample]) -> float:
    """Return by what the share of periodic work is to be multiplied, so that it is that of whole periods.

    Of 11 steps, two may be such as come every 10th time: from the first of them on, one of 10 is.
    """
    within = {each.step for each in samples}
    first, last = min(within), max(within)
    durations_s = timeline.steps.durations_s
    if first == last:
        return 1.0
    spent_s = sum(each.weight_s for each in samples if first <= each.step < last)
    return spent_s / sum(durations_s[first:last]) / timeline.share(sum(each.weight_s for each in samples))


def _in_forward(timeline: Timeline, samples: list[StepSample]) -> list[Finding]:
    """The line of a forward pass that most time goes into without weights: what it makes has no gradient."""
    calls = HotCalls(timeline.measurement.observations)
    ahead = list[StepSample]()
    for each in samples:
        seen = [(number, calls.at(frame)) for number, frame in enumerate(each.path, start=1)]
        first = next((number for number, call in seen if call and call.has_no_weights), None)
        if each.phase == Phase.FORWARD and first:
            ahead.append(replace(each, path=each.path[:first]))
    line = timeline.hottest(ahead)
    if line is None or timeline.share(line.weight) < MIN_SHARE_OF_STEP:
        return []
    line = replace(line, beside=_beside(timeline, line, [each for each in ahead if line.frame not in each.path]))
    return [
        finding(
            OWN_WORK,
            OWN_WORK.words.format(says=says(calls.at(line.frame)), kept=wasted(calls, line.frame), grows=""),
            gain=gain_of(1.0, 1.0 - timeline.share(line.weight + sum(line.beside.values()))),
            basis=FROM_CALL,
            phase=Phase.FORWARD,
            path=line.path,
            ms_a_step=line.weight / timeline.steps.count * 1e3,
            share=timeline.share(line.weight),
            beside=_shares(timeline, line),
        )
    ]


# Which line decides how often something is done: a condition of the loop, or a setting of a trainer


def decided_by(observations: Observations, path: Path, validates: bool) -> Frame | None:
    """Return the line that decides how often the last line of a path is run; None if none was found.

    Args:
        observations: what was noted of the script.
        path: the frames of user code, outermost first.
        validates: whether it is a validation.
    """
    for frame in reversed(path):
        if line := _condition(frame.path, frame.line or 0):
            return Frame(frame.name, frame.path, line)
    names = OF_VALIDATION if validates else OF_OTHER
    for each in observations.settings:
        made = observations.user_frames_of(each.stack)
        if each.function == "Trainer" and made:
            line = _keyword(made[-1].path, made[-1].line or 0, names)
            line = line or (made[-1].line if validates else None)  # without arguments, a trainer validates, too
            return Frame(made[-1].name, made[-1].path, line) if line else None
    return None


def _condition(path: str, line: int) -> int | None:
    """Return the line of the innermost condition on a count of steps that a line is run under."""
    found = [each for each in _conditions(source_of(path).tree, line) if _counts(each.test)]
    return max((each.lineno for each in found), default=None)


def _conditions(tree: ast.AST, line: int) -> Iterator[ast.If]:
    """Yield the conditions around a line, and those before it that leave its block."""
    for block in (child for _, child in ast.iter_fields(tree) if isinstance(child, list)):
        for number, each in enumerate(block):
            if not isinstance(each, ast.AST) or not _holds(each, line):
                continue
            before = block[:number]
            yield from (one for one in before if isinstance(one, ast.If) and isinstance(one.body[-1], LEAVES))
            if isinstance(each, ast.If) and not any(_holds(one, line) for one in each.orelse):
                yield each
            yield from _conditions(each, line)


def _holds(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", line + 1) <= line <= (getattr(node, "end_lineno", None) or 0)


def _counts(test: ast.expr) -> bool:
    """Whether a condition holds once in so many times."""
    return any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod) for each in ast.walk(test))


def _keyword(path: str, line: int, names: tuple[str, ...]) -> int | None:
    """Return the line of the first of these arguments in a call that begins at a line, or goes over it."""
    calls = [each for each in ast.walk(source_of(path).tree) if isinstance(each, ast.Call) and _holds(each, line)]
    lines = {keyword.arg: keyword.value.lineno for call in calls for keyword in call.keywords}
    return next((lines[name] for name in names if name in lines), None)
