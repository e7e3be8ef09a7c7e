"""The steps within epochs: what a script does between two epochs, such as a validation, is no matter of loading."""

from collections.abc import Sequence

import numpy as np

from workshop.probe.phases import Phase
from workshop.runs.measured_steps import MeasuredSteps, Stage

MAX_BLOCKS = 12
MIN_STEPS = 3
"""If fewer steps begin no epoch, it is not known what is usual."""


def within_epochs(stage: Stage) -> list[float]:
    """Return the milliseconds of each step of a stage.

    A step that begins an epoch counts with its own wait for data, but with what the others take apart from that: a
    validation may be in it. Where epochs are so short that most steps are
    reported together with one that begins one, all are as they are.
    """
    within = [each for each in stage.reports if not each.epochs_begun]
    count = sum(each.steps for each in within)
    if count < MIN_STEPS or 2 * count < sum(each.steps for each in stage.reports):
        return [each_us / 1e3 for report in stage.reports for each_us in report.durations_us]
    usual_ms = sum(each.seconds - each.phases[Phase.DATA_WAIT] for each in within) / count * 1e3
    found: list[float] = []
    for report in stage.reports:
        waits_ms = report.phases[Phase.DATA_WAIT] / report.steps * 1e3
        begins = [usual_ms + waits_ms] * report.steps
        found += begins if report.epochs_begun else [each_us / 1e3 for each_us in report.durations_us]
    return found


def blocks_ms(steps_ms: Sequence[float], workers: int) -> list[float]:
    """Return the means of some steps in a row.

    Workers that keep the training waiting hand out their batches one after the other, and then nothing for a while: a
    block is as many steps as there are workers, or some times that many.
    """
    cycle = max(1, workers)
    size = cycle * max(1, -(-len(steps_ms) // (cycle * MAX_BLOCKS)))
    if len(steps_ms) < 2 * size:
        size = max(1, len(steps_ms) // 2)
    count = len(steps_ms) // size
    return [float(np.mean(steps_ms[at * size : (at + 1) * size])) for at in range(count)]


def ceiling_ms(headroom: MeasuredSteps, as_it_is: Stage) -> float:
    """Return the mean milliseconds of a step within an epoch with batches from memory.

    The steps that begin epochs are the last ones of the headroom, as `Stage.like` puts them. If the script as it is
    takes less, apart from its wait for data, the machine was busier meanwhile, and that is the ceiling.
    """
    begun = sum(each.steps for each in as_it_is.reports if each.epochs_begun)
    durations_s = headroom.durations_s[: -begun or None] or headroom.durations_s
    within = [each for each in as_it_is.reports if not each.epochs_begun] or as_it_is.reports
    computing_s = sum(each.seconds - each.phases[Phase.DATA_WAIT] for each in within) / sum(
        each.steps for each in within
    )
    return 1e3 * min(float(np.mean(durations_s)), computing_s)
