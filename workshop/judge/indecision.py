"""Why a race has decided nothing, by a stable name, and what to do about it."""

import enum
import math

from workshop.judge.race import RaceResult
from workshop.judge.verdict import Speed
from workshop.probe.phases import Phase
from workshop.runs.other_load import OtherLoad

CLEAR = 1.25
"""Times: a speedup this far above or below the target is told apart from it, unless the pairs differ too much."""


class Indecision(enum.StrEnum):
    """What has kept a race from a decision: the first of these that holds."""

    OTHER_LOAD = "other load"
    """Other programs used the cores meanwhile."""
    RULED_OUT = "ruled out"
    """Even the solution brings too little on this machine."""
    HEADROOM = "headroom"
    """Less is to gain by loading faster than is asked for."""
    NOISE = "noise"
    """The pairs differ so much that not even a clear speedup would have shown."""
    NEAR = "near"
    """The speedup is close to what is asked for."""


def cause_of(result: RaceResult, speed: Speed, load: OtherLoad, is_ruled_out: bool) -> Indecision:
    """Return why a race is undecided, given its figures and what other programs used meanwhile."""
    low, high = result.interval
    if load.busy:
        return Indecision.OTHER_LOAD
    if is_ruled_out:
        return Indecision.RULED_OUT
    if speed.headroom_rate and speed.headroom_rate < speed.target * speed.rate_before:
        return Indecision.HEADROOM
    return Indecision.NOISE if low <= 0 or math.sqrt(high / low) > CLEAR else Indecision.NEAR


def reason_of(cause: Indecision, speed: Speed) -> str:
    """Return the cause in a few words, for a sentence that says what the speedup may be."""
    return {
        Indecision.RULED_OUT: f"even the solution brings only {speed.solution_ratio or 0.0:.2f}x on this machine",
        Indecision.OTHER_LOAD: "other programs ran beside it",
        Indecision.HEADROOM: f"batches from memory would bring {_headroom(speed):.2f}x",
        Indecision.NOISE: "the times of the epochs differ too much",
        Indecision.NEAR: "that is too close to call",
    }[cause]


def advice_on(cause: Indecision, speed: Speed, load: OtherLoad, workers: int, left: str) -> str:
    """Return what to do, in a sentence or two.

    `workers` is the number of the candidate's, and `left` says where the time of an epoch goes now; "" if it may not.
    """
    clearer = _clearer(speed, workers, left)
    return {
        Indecision.RULED_OUT: "Go on with the next part, or check this one on a machine with more cores.",
        Indecision.OTHER_LOAD: f"{load.advice} What helps all the same: {clearer}",
        Indecision.HEADROOM: f"Faster loading alone cannot bring {speed.target:g}x here: change what a step computes.",
        Indecision.NOISE: (
            "No other program was seen, so what slows these cores lies outside: a laptop's battery, or others on the "
            f"same host. Plug it in, or take another machine. What helps all the same: {clearer}"
        ),
        Indecision.NEAR: clearer[:1].upper() + clearer[1:],
    }[cause]


def _clearer(speed: Speed, workers: int, left: str) -> str:
    """Return how the speedup may become larger, and so clear of the target."""
    phases = speed.phases_after
    waits = bool(left) and max(phases, key=phases.__getitem__) == Phase.DATA_WAIT
    if waits and workers:
        number = "one worker is" if workers == 1 else f"{workers} workers are"
        return f"{number} near the limit on this machine; try {2 * workers} or {4 * workers}."
    if waits:
        return f"{left}, and no worker loads them; give the DataLoader some."
    return f"a larger speedup is told sooner{'; ' * bool(left)}{left}."


def _headroom(speed: Speed) -> float:
    return (speed.headroom_rate or 0.0) / speed.rate_before
