"""Causes in what a script does beside loading and computing: in each step, or in every k-th, and what decides that."""

import ast
import linecache
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import takewhile

from workshop.diagnosis.causes.growing_steps import growing_steps, may_grow
from workshop.diagnosis.findings import MEASURED_MARGIN, MIN_SHARE_OF_STEP, Finding, finding, gain_of
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations
from workshop.diagnosis.timeline import StepSample, Timeline
from workshop.diagnosis.user_lines import HotLine, Path
from workshop.probe.cause import Cause
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame

FROM_CALL = "estimated from the time of the whole call that the line is in"

OWN_WORK = Cause(
    "own-work",
    "The training waits while this line runs: make it cheaper, leave it to another process, or do it less often, "
    "unless the model learns from it.{grows}",
)
OF_LIBRARY = Cause(
    "own-work",
    "The whole training is in this line: the time is what the library that it calls does between the phases, such as "
    "logging and callbacks. Let it do less of that.",
)
ROLLOUT = Cause(
    "own-work",
    "This makes what the model learns from, {each_ms:.0f} ms {when}, and the training waits for it: make it cheaper. "
    "To act in several environments at a time changes what it learns from.",
)
IN_FORWARD = Cause(
    "own-work",
    "No gradient goes through this line, and the next step waits for it: where it depends neither on the weights nor "
    "on the batch, do it once beforehand; where the model does not use it, do it less often.",
)
PERIODIC_WORK = Cause(
    "periodic-work",
    "This takes {each_ms:.0f} ms {when}: make it cheaper, or do it less often, unless the model learns from it."
    "{decides}",
)
VALIDATION = Cause(
    "periodic-work",
    "This takes {each_ms:.0f} ms {when}{calls}: do it less often, or less of it, unless a learning rate or the end of "
    "the training depends on it.{decides}",
)

MAX_SHARE_OF_STEPS = 0.67
"""Share of the steps, at most, that a line is in that is in every k-th of them, if it takes long enough to be seen."""

SEEN_MS = 30.0
"""Milliseconds of a line in a step, at least, with which it is sampled there nearly always."""

MIN_ACTING = 0.2
"""Share of a line's time, at least, that an environment has if the line makes what the model learns from."""

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
    return [*growing, *_between_phases(timeline, rest), *_in_forward(timeline, rest)]


def _between_phases(timeline: Timeline, samples: list[StepSample], most: int = 3) -> list[Finding]:
    """Lines between the phases and of the validation, each in every step or in some; `most` at most."""
    between = [each for each in samples if each.phase in (Phase.OTHER, Phase.VALIDATION)]
    ahead = [replace(each, path=_before_model(each.path)) for each in between if not timeline.computes(each)]
    found: list[Finding] = []
    for _ in range(most):
        line = timeline.hottest(ahead)
        if line is None or timeline.share(line.weight) < MIN_SHARE_OF_STEP:
            break
        here = [each for each in ahead if line.frame in each.path]  # whoever has called it
        ahead = [each for each in ahead if line.frame not in each.path]
        elsewhere = sum(each.weight_s for each in here if not line.holds(each.path))
        line = replace(line, weight=line.weight + elsewhere, of_call=line.of_call + elsewhere)
        found.append(_finding_of(timeline, line, here))
    decided = [each.decided_in if each.phase == Phase.VALIDATION else None for each in found]
    return [  # one for each validation
        each for number, each in enumerate(found) if not decided[number] or decided[number] not in decided[:number]
    ]


def _before_model(path: Path) -> Path:
    """Return the frames down to the line that calls a model: what to validate is not decided in the model."""
    return tuple(takewhile(lambda frame: frame.name != "forward", path)) or path


def _finding_of(timeline: Timeline, line: HotLine, samples: list[StepSample]) -> Finding:
    """Return the finding about a line, which is in some steps or in all, of those samples that lead through it."""
    steps, within = timeline.steps, {each.step for each in samples}
    each_ms = line.weight / len(within) * 1e3
    validates = sum(each.weight_s for each in samples if each.phase == Phase.VALIDATION) > line.weight / 2
    acts = sum(each.weight_s for each in samples if each.acts) > MIN_ACTING * line.weight
    is_seldom = len(within) <= MAX_SHARE_OF_STEPS * steps.count and each_ms > SEEN_MS
    cause = VALIDATION if validates else PERIODIC_WORK if is_seldom else OWN_WORK
    if timeline.trains(line) and not validates:
        cause = OF_LIBRARY
    elif acts:
        cause = ROLLOUT
    decides, spent_s, of_call_s = None, line.weight, line.of_call
    if cause in (VALIDATION, PERIODIC_WORK):
        decides = decided_by(timeline.measurement.observations, line.path, validates)
        if validates and decides:  # all of the validation is done as often
            spent_s = max(spent_s, steps.phases_s[Phase.VALIDATION])
            of_call_s = max(of_call_s, spent_s)
        of_period = _of_whole_periods(timeline, samples)
        spent_s, of_call_s = of_period * spent_s, of_period * of_call_s
    words = cause.words.format(
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
        margin=MEASURED_MARGIN if validates and decides else None,
        phase=Phase.VALIDATION if validates else Phase.OTHER,
        path=line.path,
        ms_a_step=spent_s / steps.count * 1e3,
        share=timeline.share(spent_s),
    )


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
    where = f"Line {decides.line}" if decides.path == line.frame.path else f"{decides.path}:{decides.line}"
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
    """Lines of a forward pass that make nothing which is differentiated, and are no operators of torch."""
    differentiated = timeline.differentiated
    if not differentiated:
        return []
    samples = [
        each
        for each in samples
        if each.phase == Phase.FORWARD and each.is_not_torch and each.path and each.path[-1] not in differentiated
    ]
    line = timeline.hottest(samples)
    share = timeline.share(line.weight) if line else 0.0
    if line is None or share < MIN_SHARE_OF_STEP:
        return []
    return [
        finding(
            IN_FORWARD,
            IN_FORWARD.words,
            gain=gain_of(1.0, 1.0 - timeline.share(line.of_call)),
            basis=FROM_CALL,
            phase=Phase.FORWARD,
            path=line.path,
            ms_a_step=line.weight / timeline.steps.count * 1e3,
            share=share,
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


@cache
def _tree(path: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return None


def _condition(path: str, line: int) -> int | None:
    """Return the line of the innermost condition on a count of steps that a line is run under."""
    tree = _tree(path)
    found = [each for each in _conditions(tree, line) if _counts(each.test)] if tree else []
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
    tree = _tree(path)
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and _holds(each, line)] if tree else []
    lines = {keyword.arg: keyword.value.lineno for call in calls for keyword in call.keywords}
    return next((lines[name] for name in names if name in lines), None)
