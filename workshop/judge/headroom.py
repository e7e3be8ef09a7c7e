"""The headroom: how fast the original would be if its batches were in memory."""

from collections.abc import Sequence
from statistics import median

from workshop.judge.judged_script import TimedEpoch
from workshop.judge.running_scripts import RunningScripts
from workshop.probe.messages import Proceed
from workshop.probe.phases import COMPUTING

BUSIER, MATTERS = 1.5, 0.25
"""Two epochs are not comparable if the same computing takes this many times longer or shorter, and if the difference is
more than this share of an epoch of the candidate."""


def headroom_rate(
    scripts: RunningScripts, before: Sequence[TimedEpoch], after: Sequence[TimedEpoch], rate_after: float
) -> float | None:
    """Return the samples per second of the original with batches from memory.

    None if the candidate's rate, `rate_after`, is no lower, if no earlier run has left a batch, or if the same
    computing took much longer or shorter than in the race, whose epochs of both scripts are given.
    """
    epoch = scripts.original.epoch(Proceed(from_memory=True))
    usual_s, now_s = median(each.seconds_in(COMPUTING) for each in before), epoch.seconds_in(COMPUTING)
    matters = abs(usual_s - now_s) > MATTERS * median(each.seconds for each in after)
    if not epoch.report.from_memory or (matters and not usual_s / BUSIER < now_s < usual_s * BUSIER):
        return None
    rate = scripts.original_ledger().items_in(slice(-scripts.steps, None)) / epoch.seconds
    return rate if rate > rate_after else None
