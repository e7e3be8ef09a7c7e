"""Causes in what a script does beside loading and computing: in each step, in every k-th, or more and more of it."""

import linecache
import re
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import numpy as np

from workshop.diagnosis.findings import LITTLE, MAX_GAIN, Finding, finding, gain_of
from workshop.diagnosis.how_often import decided_by
from workshop.diagnosis.measurement import MeasuredSteps, Measurement
from workshop.diagnosis.user_lines import HotLine, Path, hottest, trunk_of
from workshop.noise import Floats, change
from workshop.probe.observations import Role
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame

OF_CALL = "estimated from the time of the whole call that the line is in"

OF_PHASE = 1.1
"""The time of a validation was measured: without it, this many times as much is saved, with what is done around it."""

MAX_LINES = 3

UNLESS = ", unless the model learns from it"

SELDOM = 0.67
"""A line that is in no larger share of the steps is in every k-th of them, if it takes long enough to be seen."""

SEEN_MS = 30.0
"""A line that takes as long as this in a step is sampled there nearly always."""

GROWS = 1.25
"""Steps grow if those of the last quarter take this many times as long as those of the first."""

STILL_GROWS = 1.3
"""Steps that grow will cost more when they are measured the next time, or for longer."""

SMALL_REST = 0.2
"""Of a smaller share of the steps it cannot be told whether it grows."""

MIN_STEPS_TO_GROW = 12
"""The number of steps in which a trend can be told from chance."""


ENVIRONMENTS = re.compile(
    r"(^|/)(gym|gymnasium|gymnax|envpool|pettingzoo|dm_control|dm_env|ale_py|procgen|minigrid|brax)/"
)
STEPS_ENVIRONMENT = re.compile(r"\benv\w*(\[\w+\])?\.(step|reset)\(", re.IGNORECASE)
EVALUATES = re.compile(r"(^|\W|_)(eval|valid|test)", re.IGNORECASE)
"""The libraries of environments in which reinforcement learning acts, a line that acts in one, and one that does so for
nothing that is learned."""

ROLLOUT = 0.2
"""A line in which an environment has this share of the time makes what the model learns from."""


def other_work_findings(measurement: Measurement) -> list[Finding]:
    """Return the lines of user code that take time beside loading and computing, and those that take more and more."""
    timeline = Timeline(measurement)
    growing = _growing(timeline)
    named = {(each.file, each.line) for each in growing}
    rest = [
        each for each in timeline.samples if not named.intersection((frame.path, frame.line) for frame in each.path)
    ]
    return [*growing, *_between_phases(timeline, rest), *_in_forward(timeline, rest)]


@dataclass(frozen=True)
class StepSample:
    """A sample of the thread that trains."""

    step: int
    """The number of the step, from 0."""
    phase: str
    path: Path
    """The frames of user code, outermost first."""
    is_not_torch: bool
    """Whether the innermost frame is user code, or of another library than torch."""
    acts: bool
    """Whether it acts in an environment of reinforcement learning."""
    weight_s: float


@dataclass(frozen=True)
class Timeline:
    """The steps of a training with what its thread did in each."""

    measurement: Measurement

    @property
    def steps(self) -> MeasuredSteps:
        """The steps in which a wait for the GPU counts to its phase, and not to the line that waits."""
        return self.measurement.table

    @cached_property
    def samples(self) -> list[StepSample]:
        """The samples of the training's thread, with their steps."""
        observations, steps = self.measurement.observations, self.steps
        durations_s = np.array(steps.durations_s)
        ends = steps.ended_s - (durations_s.sum() - np.cumsum(durations_s))
        found = []
        for each in observations.of(Role.TRAINING, steps.began_s, steps.ended_s):
            step = min(int(np.searchsorted(ends, each.time_s)), len(ends) - 1)
            leaf = each.stack[-1].path if each.stack else ""
            is_not_torch = "/torch/" not in leaf
            frames = observations.user_frames(each.stack)
            found.append(StepSample(step, each.phase, frames, is_not_torch, _acts(each.stack, frames), each.weight_s))
        return found

    @cached_property
    def work(self) -> Floats:
        """How much there was to do in each step, 1 for most: steps that call a model more often may take longer.

        So does an episode of reinforcement learning that goes on for longer.
        """
        calls = np.maximum(self.steps.forwards or np.ones(len(self.steps.durations_s)), 1.0)
        return np.asarray(calls / np.median(calls)) if calls.size else calls

    @cached_property
    def trunk(self) -> set[tuple[str, str]]:
        """The functions on the way to the backward pass and the optimizer's step: the loop, and what calls it."""
        return trunk_of(each.path for each in self.samples if each.phase in (Phase.BACKWARD, Phase.OPTIMIZER))

    def trains(self, line: HotLine) -> bool:
        """Return whether a line has a library train: backward passes and optimizer steps come from this one line."""
        phases = {each.phase for each in self.samples if each.path == line.path}
        return phases >= {Phase.BACKWARD, Phase.OPTIMIZER}

    @cached_property
    def differentiated(self) -> set[Frame]:
        """The lines of user code that have made what a backward pass went through."""
        observations = self.measurement.observations
        return {
            frame
            for each in observations.backward_passes
            for seconds, _, stack in each.parts
            if seconds > 0
            for frame in observations.user_frames_of(stack)[-1:]
        }

    def computes(self, sample: StepSample) -> bool:
        """Return whether this is the computing of a model whose methods the script calls by their names."""
        in_model = any(frame.name == "forward" for frame in sample.path)
        return sample.phase == Phase.OTHER and (in_model or bool(self.differentiated.intersection(sample.path[-1:])))

    def hottest(self, samples: list[StepSample]) -> HotLine | None:
        """Return the line that most of the time of some samples goes into."""
        return hottest(((each.path, each.weight_s) for each in samples), self.trunk)

    def share(self, seconds: float) -> float:
        """Return the share of some seconds in the time of all steps."""
        return seconds / sum(self.steps.durations_s)


def _between_phases(timeline: Timeline, samples: list[StepSample]) -> list[Finding]:
    """Lines between the phases and of the validation, each in every step or in some."""
    between = [each for each in samples if each.phase in (Phase.OTHER, Phase.VALIDATION)]
    ahead = [replace(each, path=_before_model(each.path)) for each in between if not timeline.computes(each)]
    found: list[Finding] = []
    for _ in range(MAX_LINES):
        line = timeline.hottest(ahead)
        if line is None or timeline.share(line.weight) < LITTLE:
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
    steps = timeline.steps
    in_steps = len({each.step for each in samples})
    each_ms = line.weight / in_steps * 1e3
    validates = sum(each.weight_s for each in samples if each.phase == Phase.VALIDATION) > line.weight / 2
    seldom = in_steps <= SELDOM * steps.count and each_ms > SEEN_MS
    acts = sum(each.weight_s for each in samples if each.acts) > ROLLOUT * line.weight
    cause = "periodic-work" if (seldom or validates) and not acts else "own-work"
    every = max(1 + seldom, round(steps.count / in_steps))
    when = f"in every {_ordinal(every)} step" if every > 1 else "in every step"
    when = f"once in {steps.count} steps" if in_steps == 1 < steps.count else when
    if timeline.trains(line) and not validates:
        cause = "own-work"
        words = (
            "The whole training is in this line: the time is what the library that it calls does between the phases, "
            "such as logging and callbacks. Let it do less of that."
        )
    elif acts:
        words = (
            f"This makes what the model learns from, {each_ms:.0f} ms {when}, and the training waits for it: "
            "make it cheaper, or act in several environments at a time."
        )
    elif validates:
        loops = (frame for frame in reversed(line.path[:-1]) if (frame.name, frame.path) in timeline.trunk)
        calls = next((f", in the validation that {frame.name} calls in line {frame.line}" for frame in loops), "")
        words = f"This takes {each_ms:.0f} ms {when}{calls}: do it less often, or less of it."
    elif seldom:
        words = f"This takes {each_ms:.0f} ms {when}: make it cheaper, or do it less often{UNLESS}."
    else:
        words = (
            "The training waits while this line runs: make it cheaper, leave it to another process, or do it less often"
            f"{UNLESS}."
        )
        words += _may_grow(timeline, line, samples)
    decides = None
    if cause == "periodic-work" and not acts:
        decides = decided_by(timeline.measurement.observations, line.path, validates)
    if decides and decides != line.frame:
        where = f"Line {decides.line}" if decides.path == line.frame.path else f"{decides.path}:{decides.line}"
        text = linecache.getline(decides.path, decides.line or 0).strip()
        words += f" {where} decides how often: {text}"
    spent_s, of_call_s = line.weight, line.of_call
    if validates and decides:  # all of the validation is done as often
        spent_s = max(spent_s, steps.phases_s[Phase.VALIDATION])
        of_call_s = max(of_call_s, spent_s)
    of_period = _of_whole_periods(timeline, samples) if cause == "periodic-work" else 1.0
    spent_s, of_call_s = of_period * spent_s, of_period * of_call_s
    return finding(
        cause,
        words,
        decided_in=(decides.path, decides.line or 0) if decides else None,
        gain=gain_of(1.0, 1.0 - timeline.share(of_call_s)),
        basis=OF_CALL,
        margin=OF_PHASE if validates and decides else None,
        phase=Phase.VALIDATION if validates else Phase.OTHER,
        path=line.path,
        ms_a_step=spent_s / steps.count * 1e3,
        share=timeline.share(spent_s),
    )


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


def _may_grow(timeline: Timeline, line: HotLine, samples: list[StepSample]) -> str:
    """Return a sentence if it may be that a line takes more and more time, and the steps were too few to tell."""
    count = timeline.steps.count
    longer = "measure more steps, with a larger --seconds, to tell whether the cause is growing-steps."
    if count < MIN_STEPS_TO_GROW:
        return f" In {count} steps it cannot be seen whether it takes longer and longer: {longer}"
    halves_s = [0.0, 0.0]
    for each in samples:
        halves_s[each.step >= count / 2] += each.weight_s / timeline.work[each.step]
    early_ms, late_ms = (2e3 * seconds / count for seconds in halves_s)
    if late_ms < GROWS * early_ms or _grows_all(timeline, line):
        return ""
    return f" It took {early_ms:.1f} ms in the first half of the steps and {late_ms:.1f} ms in the second: {longer}"


def _acts(stack: Path, frames: Path) -> bool:
    """Return whether a stack acts in an environment, to learn from what comes of it."""
    lines = [(frame.name, linecache.getline(frame.path, frame.line or 0)) for frame in frames]
    if any(EVALUATES.search(text) for each in lines for text in each):
        return False
    of_library = any(ENVIRONMENTS.search(frame.path) for frame in stack)
    return of_library or any(STEPS_ENVIRONMENT.search(text) for _, text in lines)


def _growing(timeline: Timeline) -> list[Finding]:
    """Steps that take longer and longer for the same work, and the line that does."""
    work = timeline.work
    durations = np.array(timeline.steps.durations_s) / work
    if len(durations) < MIN_STEPS_TO_GROW:
        return []
    quarters, shortest = _quarters(durations)
    ratio = min(each[3] / max(each[0], 1e-9) for each in (quarters, shortest))
    grown_s = min(each[3] - each[0] for each in (quarters, shortest))  # little beside some steps that take far longer
    if ratio < GROWS or not _grows_on(durations) or grown_s < LITTLE * durations.mean():
        return []
    half = len(durations) / 2
    more = [(each, each.weight_s / work[each.step] * (1 if each.step >= half else -1)) for each in timeline.samples]
    weights = [(each.path, weight_s) for each, weight_s in more]
    by_phase = {phase: sum(weight_s for each, weight_s in more if each.phase == phase) for phase in Phase}
    line = hottest(weights, timeline.trunk)
    if line is None or line.weight <= 0 or _grows_all(timeline, line):
        return []
    mean = durations.mean()
    spent = sum(each.weight_s / work[each.step] for each in timeline.samples if line.holds(each.path)) / len(durations)
    a_step = (quarters[3] - quarters[0]) / (0.75 * len(durations))
    before = max(float(np.median(durations[:5])) - a_step * timeline.steps.first_step, mean / MAX_GAIN)
    at_first = (before + max(before, mean - spent)) / 2  # between what the trend says, and what the line itself takes
    grown = mean - at_first
    return [
        finding(
            "growing-steps",
            f"A step has grown from {quarters[0] * 1e3:.0f} to {quarters[3] * 1e3:.0f} ms: if this line "
            "goes over all that was kept so far, keep a sum in place of a list, or drop what is old.",
            gain=float(mean / at_first),
            margin=STILL_GROWS,
            phase=max(by_phase, key=by_phase.__getitem__),
            path=line.path,
            ms_a_step=float(grown * 1e3),
            share=float(grown / mean),
        )
    ]


def getting_shorter(measurement: Measurement) -> list[str]:
    """Say it if the steps have become shorter for the same work: what was measured is then not what is to come."""
    timeline = Timeline(measurement)
    durations = np.array(timeline.steps.durations_s) / timeline.work
    if len(durations) < MIN_STEPS_TO_GROW or not _is_growth(_ranks(durations[::-1]), compared=1):
        return []
    quarters, shortest = _quarters(durations)
    if min(each[0] / max(each[3], 1e-9) for each in (quarters, shortest)) < GROWS:
        return []
    change_ms = f"from {quarters[0] * 1e3:.1f} to {quarters[3] * 1e3:.1f} ms"
    return [
        f"Steps have become shorter meanwhile, {change_ms}, as where caches warm up or other programs end. With a "
        "larger --seconds, the figures tell more of a long training."
    ]


def _quarters(durations: Floats) -> tuple[list[float], list[float]]:
    """Return the median of each quarter of the steps, and the shortest, which a busy machine does not make longer."""
    quarters = np.array_split(durations, 4)
    return [float(np.median(each)) for each in quarters], [float(each.min()) for each in quarters]


def _grows_on(durations: Floats) -> bool:
    """Return whether steps grow in both halves of a measurement, each by more than noise.

    A program that begins to use the cores makes all steps after that longer, which shows in one half at most. Ranks
    are compared, as a few steps may take far longer; the noise is what is left beside a steady growth.
    """
    halves = np.array_split(durations, 2)
    return all(_is_growth(_ranks(each), len(halves)) for each in halves)


def _ranks(values: Floats) -> Floats:
    return values.argsort().argsort().astype(np.float64)


def _is_growth(values: Floats, compared: int) -> bool:
    """Return whether the second half of some values is larger than the first one, by more than noise."""
    place = np.arange(len(values))
    left = values - np.polyval(np.polyfit(place, values, 1), place)
    grown, noise = (change(*np.array_split(each, 2)) for each in (values, left))
    return bool(grown.mean > 0 and grown._replace(error=noise.error, freedom=noise.freedom).is_real(compared))


def _grows_all(timeline: Timeline, line: HotLine) -> bool:
    """Return whether the rest of the steps grows as the line does: then the machine has become busier, or warmer."""
    spent_s = np.zeros((2, 2))
    for each in timeline.samples:
        is_late = each.step >= len(timeline.work) / 2
        spent_s[int(line.frame in each.path), int(is_late)] += each.weight_s / timeline.work[each.step]
    rest_s, line_s = spent_s
    if rest_s.sum() < SMALL_REST * spent_s.sum() or not spent_s[:, 0].all():
        return False
    return bool(rest_s[1] / rest_s[0] - 1.0 > 0.6 * (line_s[1] / line_s[0] - 1.0))


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
    if line is None or share < LITTLE:
        return []
    return [
        finding(
            "own-work",
            "No gradient goes through this line, and the next step waits for it: do it less often, or, "
            "where it does not depend on the weights, once beforehand.",
            gain=gain_of(1.0, 1.0 - timeline.share(line.of_call)),
            basis=OF_CALL,
            phase=Phase.FORWARD,
            path=line.path,
            ms_a_step=line.weight / timeline.steps.count * 1e3,
            share=share,
        )
    ]


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
