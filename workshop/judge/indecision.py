"""Why a race has decided nothing, and what to do about it."""

import enum
import math

from workshop.judge.race import RaceResult
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.verdict import Speed
from workshop.probe.phases import Phase
from workshop.runs.other_load import OtherLoad

MIN_CLEARANCE = 1.25
"""Times, at least, that a speedup is above or below the target, for a race to tell unless the pairs differ too much."""


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


class IndecisionReason(ReasonKind):
    """The cause in a few words, by its name: a part of the sentence that says what the speedup may be."""

    OTHER_LOAD = "other programs ran beside it"
    RULED_OUT = "even the solution brings only {solution:.2f}x on this machine"
    HEADROOM = "batches from memory would bring {headroom:.2f}x"
    NOISE = "the times of the epochs differ too much"
    NEAR = "that is too close to call"


class IndecisionAdvice(ReasonKind):
    """What to do, by the name of the cause; then, what makes the speedup larger, and so clear of the target."""

    OTHER_LOAD = "{close} What helps all the same: {clearer}"
    RULED_OUT = "Go on with the next part, or check this one on a machine with more cores."
    HEADROOM = "Faster loading alone cannot bring {target:g}x here: change what a step computes."
    NOISE = (
        "No other program was seen, so what slows these cores lies outside: a laptop's battery, or others on the same "
        "host. Plug it in, or take another machine. What helps all the same: {clearer}"
    )
    NEAR = "{clearer}"
    ONE_WORKER = "one worker is near the limit on this machine; try 2 or 4."
    FEW_WORKERS = "{workers} workers are near the limit on this machine; try {twice} or {four_times}."
    NO_WORKER = "{left}, and no worker loads them; give the DataLoader some."
    LARGER_SPEEDUP = "a larger speedup is told sooner."
    LARGER_SPEEDUP_OF = "a larger speedup is told sooner; {left}."


def cause_of(result: RaceResult, speed: Speed, load: OtherLoad, is_ruled_out: bool) -> Indecision:
    """Return why a race is undecided, given its figures and what other programs used meanwhile."""
    low, high = result.interval
    if load.busy:
        return Indecision.OTHER_LOAD
    if is_ruled_out:
        return Indecision.RULED_OUT
    if speed.headroom_rate and speed.headroom_rate < speed.target * speed.rate_before:
        return Indecision.HEADROOM
    return Indecision.NOISE if low <= 0 or math.sqrt(high / low) > MIN_CLEARANCE else Indecision.NEAR


def reason_of(cause: Indecision, speed: Speed) -> Reason:
    """Return the cause in a few words."""
    headroom = (speed.headroom_rate or 0.0) / speed.rate_before
    return IndecisionReason[cause.name](solution=speed.solution_ratio or 0.0, headroom=headroom)


def advice_on(cause: Indecision, speed: Speed, load: OtherLoad, workers: int, left: Reason | None) -> Reason:
    """Return what to do.

    `workers` is the number of the candidate's, and `left` says where the time of an epoch goes now; None if it may not.
    """
    clearer = _clearer(speed, workers, left)
    if cause is Indecision.NEAR:
        return IndecisionAdvice.NEAR(clearer=f"{str(clearer)[:1].upper()}{str(clearer)[1:]}")
    return IndecisionAdvice[cause.name](close=load.advice, clearer=clearer, target=speed.target)


def _clearer(speed: Speed, workers: int, left: Reason | None) -> Reason:
    """Return how the speedup may become larger, and so clear of the target."""
    phases = speed.phases_after
    if left is None:
        return IndecisionAdvice.LARGER_SPEEDUP()
    if max(phases, key=phases.__getitem__) != Phase.DATA_WAIT:
        return IndecisionAdvice.LARGER_SPEEDUP_OF(left=left)
    if workers > 1:
        return IndecisionAdvice.FEW_WORKERS(workers=workers, twice=2 * workers, four_times=4 * workers)
    return IndecisionAdvice.ONE_WORKER() if workers else IndecisionAdvice.NO_WORKER(left=left)
