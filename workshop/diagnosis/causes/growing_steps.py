"""Steps that take longer and longer, and the line that does; or shorter and shorter, as caches warm up."""

import numpy as np

from workshop.diagnosis.findings import MAX_GAIN, MIN_SHARE_OF_STEP, Finding, finding
from workshop.diagnosis.measurement import Measurement, Note, NoteKind
from workshop.diagnosis.timeline import StepSample, Timeline
from workshop.diagnosis.user_lines import HotLine, hottest
from workshop.noise import Floats, change
from workshop.probe.cause import Cause, CausePlace
from workshop.probe.phases import Phase

GROWING_STEPS = Cause(
    "growing-steps",
    "A step has grown from {first_ms:.0f} to {last_ms:.0f} ms: if this line goes over all that was kept so far, keep a "
    "sum in place of a list, or, unless the model learns from it, drop what is old.",
    CausePlace.FIRST,
)

MIN_GROWTH = 1.25
"""The factor, at least, by which steps of the last quarter are longer than those of the first if steps grow."""

STEEP_GROWTH = 2.0
"""The factor, at least, by which steps grow if it need not be in both halves: along a line is enough, as other
programs start at once."""

MIN_STEPS_TO_GROW = 12
"""Steps, at least, in which a trend can be told from chance."""


def growing_steps(timeline: Timeline) -> list[Finding]:
    """Return the line that takes longer and longer for the same work, if steps grow."""
    work = timeline.work
    durations = np.array(timeline.steps.durations_s) / work
    if len(durations) < MIN_STEPS_TO_GROW:
        return []
    quarters, shortest = _quarters(durations)
    ratio = min(each[3] / max(each[0], 1e-9) for each in (quarters, shortest))
    grown_s = min(each[3] - each[0] for each in (quarters, shortest))  # little beside some steps that take far longer
    grows = _grows_on(durations) or (ratio > STEEP_GROWTH and _grows_steadily(durations))
    if ratio < MIN_GROWTH or not grows or grown_s < MIN_SHARE_OF_STEP * durations.mean():
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
            GROWING_STEPS,
            GROWING_STEPS.words.format(first_ms=quarters[0] * 1e3, last_ms=quarters[3] * 1e3),
            gain=float(mean / at_first),
            phase=max(by_phase, key=by_phase.__getitem__),
            path=line.path,
            ms_a_step=float(grown * 1e3),
            share=float(grown / mean),
        )
    ]


def may_grow(timeline: Timeline, line: HotLine, samples: list[StepSample]) -> str:
    """Return a sentence if it may be that a line takes more and more time, and the steps were too few to tell."""
    count = timeline.steps.count
    longer = "more steps, as with a larger --seconds of workshop measure, tell whether the cause is growing-steps."
    if count < MIN_STEPS_TO_GROW:
        return f" In {count} steps it cannot be seen whether it takes longer and longer: {longer}"
    halves_s = [0.0, 0.0]
    for each in samples:
        halves_s[each.step >= count / 2] += each.weight_s / timeline.work[each.step]
    early_ms, late_ms = (2e3 * seconds / count for seconds in halves_s)
    if late_ms < MIN_GROWTH * early_ms or _grows_all(timeline, line):
        return ""
    return f" It took {early_ms:.1f} ms in the first half of the steps and {late_ms:.1f} ms in the second: {longer}"


def getting_shorter(measurement: Measurement) -> list[Note]:
    """Say it if the steps have become shorter for the same work: what was measured is then not what is to come."""
    timeline = Timeline(measurement)
    durations = np.array(timeline.steps.durations_s) / timeline.work
    if len(durations) < MIN_STEPS_TO_GROW or not _is_growth(_ranks(durations[::-1]), compared=1):
        return []
    quarters, shortest = _quarters(durations)
    if min(each[0] / max(each[3], 1e-9) for each in (quarters, shortest)) < MIN_GROWTH:
        return []
    change_ms = f"from {quarters[0] * 1e3:.1f} to {quarters[3] * 1e3:.1f} ms"
    says = (
        f"Steps have become shorter meanwhile, {change_ms}, as where caches warm up or other programs end. With a "
        "larger --seconds, the figures tell more of a long training."
    )
    return [Note(NoteKind.SHORTER_STEPS, says)]


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


def _grows_steadily(durations: Floats) -> bool:
    """Return whether a line fits the growth of the steps better than one place at which they get longer at once."""
    ranks = _ranks(durations)
    before = np.arange(1, len(ranks))
    sums = np.cumsum(ranks)[:-1]
    # What the two means explain of the squares, and what they leave of them.
    explained = sums**2 / before + (ranks.sum() - sums) ** 2 / (len(ranks) - before)
    at_once = float((ranks**2).sum() - explained.max())
    return _is_growth(ranks, compared=1) and float((_beside_line(ranks) ** 2).sum()) < at_once


def _ranks(values: Floats) -> Floats:
    return values.argsort().argsort().astype(np.float64)


def _is_growth(values: Floats, compared: int) -> bool:
    """Return whether the second half of some values is larger than the first one, by more than noise."""
    grown, noise = (change(*np.array_split(each, 2)) for each in (values, _beside_line(values)))
    return bool(grown.mean > 0 and grown._replace(error=noise.error, freedom=noise.freedom).is_real(compared))


def _beside_line(values: Floats) -> Floats:
    """Return by how much each value lies beside the straight line that fits them best."""
    place = np.arange(len(values))
    return values - np.polyval(np.polyfit(place, values, 1), place)


def _grows_all(timeline: Timeline, line: HotLine) -> bool:
    """Return whether the rest of the steps grows as the line does: then the machine has become busier, or warmer.

    A rest of less than a fifth of the steps tells nothing.
    """
    spent_s = np.zeros((2, 2))
    for each in timeline.samples:
        is_late = each.step >= len(timeline.work) / 2
        spent_s[int(line.frame in each.path), int(is_late)] += each.weight_s / timeline.work[each.step]
    rest_s, line_s = spent_s
    if rest_s.sum() < 0.2 * spent_s.sum() or not spent_s[:, 0].all():
        return False
    return bool(rest_s[1] / rest_s[0] - 1.0 > 0.6 * (line_s[1] / line_s[0] - 1.0))
