"""The verdict on a script that does the same work, from its race; of a race that decided nothing, also why."""

import enum
import math
from collections.abc import Iterator, Sequence

from workshop.judge.contest import MIN_TARGET, Contest
from workshop.judge.ledger import Ledger
from workshop.judge.race import MAX_PAIRS, MIN_PAIRS, MIN_SURE, Pair, RaceResult, mean_ratio
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.step_proof import not_reproducible
from workshop.judge.verdict import NextStep, Outcome, Speed, Verdict, VerdictReason
from workshop.probe.messages import Recomputation
from workshop.probe.phases import Phase
from workshop.runs.other_load import OtherLoad

MIN_CLEARANCE = 1.25
"""Times, at least, that a speedup is above or below the target, for a race to tell unless the pairs differ too much."""

SLOWER, AS_FAST, FASTER = "slower than allowed", "not slower than allowed", "faster"


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


class RaceReason(ReasonKind):
    """What is said of a race, and of where the time of an epoch goes now."""

    SPEEDUP = "Speedup {ratio}x over {base}{where}"
    SAME_WORK = "{0}, same work"
    BELOW_TARGET = "{0}; target: {target:g}x"
    BEFORE_THE_MODEL = " in what comes before the model"
    SPEEDUP_NOT_AGAIN = "a speedup below {limit:g}x must show again after a restart, and no time was left"
    SLOWDOWN_NOT_AGAIN = "a small slowdown must show again after a restart, and no time was left"
    SOLUTION = "the solution reaches {solution:.1f}x here"
    LOWER_TARGET = (
        "the solution reaches {solution:.1f}x here, so {target:g}x is asked for on this machine, and not {most:g}x"
    )
    UNDECIDED = "{after}the speedup may be {may_be}; {target:g}x is asked for: {cause}"
    UNDECIDED_SLOWDOWN = "{after}its speed may be {may_be}; {target:.2g}x is asked for: {cause}"
    ANYTHING = "anything: its pairs measured {low:.2f}x to {high:.2f}x"
    AFTER_PAIRS = "after {pairs} pairs of epochs, "
    OUT_OF_TIME = "after {pairs} pairs of epochs, when the time ran out, "
    RACES_DIFFER = "with {one}x in one run of both and {other}x in another, "
    NOT_FINISHED = (
        "same work: proven in {proven_s:.0f} s; the race was not finished: {pairs} of at most {most} pairs{so_far}"
    )
    SO_FAR = ", so far {low:.2f}x to {high:.2f}x"
    PACE = "{pace} than {base}, same work"
    MEAN_PACE = "in the mean of the pairs {0}"
    SLOWDOWN = "{0} (speed: {may_be}); allowed: {allowed} slower"
    NOT_TAKEN_AGAIN = "{base} could not take one of its own steps again: {error}"
    OTHERWISE_AGAIN = (
        "when {base} takes one of its own steps again, it comes to another {aspects}; it keeps something outside of "
        "its models and optimizers, or draws with other generators than those of torch, NumPy and random"
    )
    WAITS = "the loop still waits for data for {share:.0%} of an epoch"
    WAITS_FOR_NEW_WORKERS = (
        "the loop still waits for data for {share:.0%} of an epoch, which begins with starting the workers anew "
        "(persistent_workers=True keeps them)"
    )
    OTHER_PHASE = (
        "{share:.0%} of an epoch goes into neither loading nor model nor optimizer: profile main() line by line"
    )
    COMPUTES = "what is left is mostly computation: the largest phase is {phase}, {share:.0%} of an epoch"
    MORE_TIME_AND_QUIET = "{more_time} {close}"


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


def verdict_on(
    contest: Contest,
    result: RaceResult,
    speed: Speed,
    ledgers: tuple[Ledger, Ledger],
    where: Reason | str,
    load: OtherLoad,
    more_time: Reason | None,
) -> Verdict:
    """Return the verdict on the race of a contest, given the ledgers of the original and of the candidate.

    `where` says what of a step was raced, and is empty for all of it; `load` is what other programs used meanwhile, and
    `more_time` says how to allow more time, where that may decide it.
    """
    subject, base, (original, candidate) = contest.subject, contest.original_name, ledgers
    over = RaceReason.SPEEDUP(ratio=speed.text(speed.ratio), base=base, where=where)
    says = RaceReason.SAME_WORK(over)
    if why_not := _why_not_again(base, original.recomputed):
        return Verdict(subject, Outcome.UNDECIDED, (VerdictReason.WORK_UNSEEN(why_not), over), speed)
    if result.unsure:
        kind = RaceReason.SPEEDUP_NOT_AGAIN if contest.allowed is None else RaceReason.SLOWDOWN_NOT_AGAIN
        reasons = (kind(limit=MIN_SURE * speed.target), says)
        return Verdict(subject, Outcome.UNDECIDED, reasons, speed, NextStep(words=more_time))
    left = None if where else what_is_left(speed, candidate.restarts_workers)
    if result.faster is None or (result.faster is False and is_ruled_out(contest, speed)):
        return _undecided(contest, result, speed, says, left, candidate.workers, load, more_time)
    if contest.allowed is not None:
        return _slowdown_verdict(contest, result, speed)
    notes = tuple(_of_solution(contest, speed))
    if result.faster:
        return Verdict(subject, Outcome.DONE, (says, *notes), speed, NextStep(words=left))
    below = RaceReason.BELOW_TARGET(says, target=speed.target)
    return Verdict(subject, Outcome.NOT_YET, (below, *notes), speed, NextStep(words=left))


def is_ruled_out(contest: Contest, speed: Speed) -> bool:
    """Return whether the solution itself is so slow here that this machine cannot show that a script fails."""
    return speed.solution_ratio is not None and speed.solution_ratio < MIN_CLEARANCE * min(contest.target, MIN_TARGET)


def _of_solution(contest: Contest, speed: Speed) -> Iterator[Reason]:
    """Yield how fast the solution is here, if that is known, and what follows from it."""
    if speed.solution_ratio is not None:
        kind = RaceReason.LOWER_TARGET if speed.target < contest.target else RaceReason.SOLUTION
        yield kind(solution=speed.solution_ratio, target=speed.target, most=contest.target)


def _undecided(
    contest: Contest,
    result: RaceResult,
    speed: Speed,
    says: Reason,
    left: Reason | None,
    workers: int,
    load: OtherLoad,
    more_time: Reason | None,
) -> Verdict:
    """Return the verdict on a race that has decided nothing: why, and what to do about just that."""
    cause = cause_of(result, speed, load, is_ruled_out(contest, speed))
    after = _after_which_pairs(result, speed) if result.faster is None else ""
    may_be: Reason | str = speed.may_be
    if speed.says_nothing and result.faster is None:
        may_be = RaceReason.ANYTHING(**_range(result.pairs + result.again))
    found = {"after": after, "may_be": may_be, "cause": reason_of(cause, speed)}
    if contest.allowed is None:
        why = RaceReason.UNDECIDED(**found, target=speed.target)
    else:
        why = RaceReason.UNDECIDED_SLOWDOWN(**found, target=speed.target)
        says = RaceReason.MEAN_PACE(RaceReason.PACE(pace=_pace(result.ratio), base=contest.original_name))
    advice = more_time or advice_on(cause, speed, load, workers, left)
    if more_time and load.advice:
        advice = RaceReason.MORE_TIME_AND_QUIET(more_time=more_time, close=load.advice)
    reasons = (why, says, *_of_solution(contest, speed))
    return Verdict(contest.subject, Outcome.UNDECIDED, reasons, speed, NextStep(words=advice), undecided=cause)


def _why_not_again(base: str, recomputed: Sequence[Recomputation]) -> Reason | None:
    """Return why the steps of the original do not come out the same when it takes them again; None if they do."""
    if error := next((each.error for each in recomputed if each.error is not None), None):
        return RaceReason.NOT_TAKEN_AGAIN(base=base, error=error)
    if not (differs := not_reproducible(recomputed)):
        return None
    return RaceReason.OTHERWISE_AGAIN(base=base, aspects=" and another ".join(differs))


def _slowdown_verdict(contest: Contest, result: RaceResult, speed: Speed) -> Verdict:
    """Return the verdict on a script that must not be slower than it was; it is the one that the interval implies."""
    subject = contest.subject
    pace = RaceReason.PACE(pace=_pace(result.ratio), base=contest.original_name)
    if result.interval[0] < 1 < result.interval[1]:
        pace = RaceReason.MEAN_PACE(pace)
    found = RaceReason.SLOWDOWN(pace, may_be=speed.may_be, allowed=_percent(contest.allowed or 0.0))
    if result.faster:
        return Verdict(subject, Outcome.DONE, (found,), speed, words=FASTER if result.interval[0] > 1 else AS_FAST)
    return Verdict(subject, Outcome.NOT_YET, (found,), speed, words=SLOWER)


def _after_which_pairs(result: RaceResult, speed: Speed) -> Reason:
    """Return how far a race came that has decided nothing."""
    if result.again:
        one, other = (speed.text(mean_ratio(pairs)) for pairs in (result.pairs, result.again))
        return RaceReason.RACES_DIFFER(one=one, other=other)
    kind = RaceReason.OUT_OF_TIME if len(result.pairs) < MAX_PAIRS else RaceReason.AFTER_PAIRS
    return kind(pairs=len(result.pairs))


def _pace(ratio: float) -> str:
    """Return in words how much longer an epoch takes, or how much shorter, at a speedup."""
    return f"{_percent(1 / ratio - 1)} slower" if ratio <= 1 else f"{ratio:.2f}x faster"


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %" if share < 1 else f"{share * 100:,.0f} %"


def what_is_left(speed: Speed, restarts_workers: bool) -> Reason:
    """Return where the time of an epoch goes now."""
    phase, seconds = max(speed.phases_after.items(), key=lambda item: item[1])
    share = seconds / sum(speed.phases_after.values())
    if phase == Phase.DATA_WAIT:
        return (RaceReason.WAITS_FOR_NEW_WORKERS if restarts_workers else RaceReason.WAITS)(share=share)
    return (RaceReason.OTHER_PHASE if phase == Phase.OTHER else RaceReason.COMPUTES)(phase=phase, share=share)


def not_finished(pairs: Sequence[Pair], proven_s: float) -> Reason:
    """Return what is known when a race is interrupted; it took `proven_s` to prove the work before it."""
    so_far = RaceReason.SO_FAR(**_range(pairs)) if pairs else ""
    return RaceReason.NOT_FINISHED(proven_s=proven_s, pairs=len(pairs), most=MAX_PAIRS, so_far=so_far)


def _range(pairs: Sequence[Pair]) -> dict[str, float]:
    ratios = [pair.ratio for pair in pairs]
    return {"low": min(ratios), "high": max(ratios)}


def how_far(result: RaceResult, passed_s: float, left_s: float) -> str:
    """Say how far a race has come, and how long the rest takes at least and at most.

    Until now its pairs took `passed_s`, with all that is done between them; it may go on for `left_s`.
    """
    pairs = result.pairs
    at_most = f"{MIN_PAIRS} to {MAX_PAIRS}" if len(pairs) < MIN_PAIRS else f"at most {MAX_PAIRS}"
    so_far = f"pair {len(pairs)} of {at_most}: {mean_ratio(pairs):.2f}x so far"
    if result.is_over:
        return f"{so_far}, and that decides it"
    pair_s = passed_s / len(pairs)
    if len(pairs) >= MIN_PAIRS and pair_s > left_s:
        return f"{so_far}, and the time is over"
    at_least_s = max(0, MIN_PAIRS - len(pairs)) * pair_s
    at_most_s = max(at_least_s, min((MAX_PAIRS - len(pairs)) * pair_s, left_s)) * (len(pairs) < MAX_PAIRS)
    if at_most_s < 1:
        return so_far
    least = f"{at_least_s:.0f} to " if 1 <= round(at_least_s) < round(at_most_s) else "up to " * (at_least_s < 1)
    return f"{so_far}; {least}{at_most_s:.0f} s left"
