"""The verdict on a script that does the same work, from its race."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from workshop.judge.contest import MIN_TARGET, Contest
from workshop.judge.indecision import CLEAR, advice_on, cause_of, reason_of
from workshop.judge.ledger import Ledger
from workshop.judge.race import MAX_PAIRS, MIN_PAIRS, SURE, RaceResult, mean_ratio
from workshop.judge.step_proof import not_reproducible
from workshop.judge.verdict import Outcome, Speed, UnseenWork, Verdict
from workshop.probe.messages import Recomputation
from workshop.probe.phases import Phase
from workshop.runs.other_load import OtherLoad

SLOWER, AS_FAST, FASTER = "slower than allowed", "not slower than allowed", "faster"


def verdict_on(
    contest: Contest,
    result: RaceResult,
    speed: Speed,
    ledgers: tuple[Ledger, Ledger],
    where: str,
    load: OtherLoad,
    more_time: str,
) -> Verdict:
    """Return the verdict on the race of a contest, given the ledgers of the original and of the candidate.

    `where` says what of a step was raced, and is empty for all of it; `load` is what other programs used meanwhile, and
    `more_time` says how to allow more time, where that may decide it.
    """
    subject, base, (original, candidate) = contest.subject, contest.original_name, ledgers
    over = f"Speedup {speed.text(speed.ratio)}x over {base}{where}"
    says = f"{over}, same work"
    if why_not := _why_not_again(base, original.recomputed):
        unseen = UnseenWork(f"the judge cannot see whether it is the same work: {why_not}")
        return Verdict(subject, Outcome.UNDECIDED, (unseen, over), speed)
    if result.unsure:
        small = f"a speedup below {SURE * speed.target:g}x" if contest.allowed is None else "a small slowdown"
        why = f"{small} must show again after a restart, and no time was left"
        return Verdict(subject, Outcome.UNDECIDED, (why, says), speed, more_time)
    left = "" if where else what_is_left(speed, candidate.restarts_workers)
    if result.faster is None or (result.faster is False and is_ruled_out(contest, speed)):
        return _undecided(contest, result, speed, says, left, candidate.workers, load, more_time)
    if contest.allowed is not None:
        return _slowdown_verdict(contest, result, speed)
    notes = tuple(_of_solution(contest, speed))
    if result.faster:
        return Verdict(subject, Outcome.DONE, (says, *notes), speed, left)
    return Verdict(subject, Outcome.NOT_YET, (f"{says}; target: {speed.target:g}x", *notes), speed, left)


def is_ruled_out(contest: Contest, speed: Speed) -> bool:
    """Return whether the solution itself is so slow here that this machine cannot show that a script fails."""
    return speed.solution_ratio is not None and speed.solution_ratio < CLEAR * min(contest.target, MIN_TARGET)


def _of_solution(contest: Contest, speed: Speed) -> Iterator[str]:
    """Yield how fast the solution is here, if that is known, and what follows from it."""
    if speed.solution_ratio is None:
        return
    reaches = f"the solution reaches {speed.solution_ratio:.1f}x here"
    asked = f", so {speed.target:g}x is asked for on this machine, and not {contest.target:g}x"
    yield reaches + asked * (speed.target < contest.target)


def _undecided(
    contest: Contest,
    result: RaceResult,
    speed: Speed,
    says: str,
    left: str,
    workers: int,
    load: OtherLoad,
    more_time: str,
) -> Verdict:
    """Return the verdict on a race that has decided nothing: why, and what to do about just that."""
    cause = cause_of(result, speed, load, is_ruled_out(contest, speed))
    may_be, asked = f"the speedup may be {speed.may_be}", f"{speed.target:g}x is asked for"
    if contest.allowed is not None:
        may_be, asked = f"its speed may be {speed.may_be}", f"allowed: {_percent(contest.allowed)} slower"
        says = f"{_pace(result.ratio)} than {contest.original_name}, same work"
    after = f"{_after_which_pairs(result, speed)}, " if result.faster is None else ""
    why = f"{after}{may_be}; {asked}: {reason_of(cause, speed)}"
    advice = advice_on(cause, speed, load, workers, left)
    if more_time:
        advice = f"{more_time} {load.advice}".rstrip()
    reasons = (why, says, *_of_solution(contest, speed))
    return Verdict(contest.subject, Outcome.UNDECIDED, reasons, speed, advice, undecided=cause)


def _why_not_again(base: str, recomputed: Sequence[Recomputation]) -> str:
    """Return why the steps of the original do not come out the same when it takes them again; "" if they do."""
    if error := next((each.error for each in recomputed if each.error is not None), None):
        return f"{base} could not take one of its own steps again: {error}"
    if not (differs := not_reproducible(recomputed)):
        return ""
    return (
        f"when {base} takes one of its own steps again, it comes to another {' and another '.join(differs)}; it keeps "
        "something outside of its models and optimizers, or draws with other generators than those of torch, NumPy and "
        "random"
    )


def _slowdown_verdict(contest: Contest, result: RaceResult, speed: Speed) -> Verdict:
    """Return the verdict on a script that must not be slower than it was; it is the one that the interval implies."""
    subject = contest.subject
    found = f"{_pace(result.ratio)} than {contest.original_name}, same work (speed: {speed.may_be})"
    found = f"{found}; allowed: {_percent(contest.allowed or 0.0)} slower"
    if result.faster:
        return Verdict(subject, Outcome.DONE, (found,), speed, words=FASTER if result.interval[0] > 1 else AS_FAST)
    return Verdict(subject, Outcome.NOT_YET, (found,), speed, words=SLOWER)


def _after_which_pairs(result: RaceResult, speed: Speed) -> str:
    """Return how far a race came that has decided nothing."""
    if result.again:
        one, other = (speed.text(mean_ratio(pairs)) for pairs in (result.pairs, result.again))
        return f"with {one}x in one run of both and {other}x in another"
    out_of_time = ", when the time ran out" if len(result.pairs) < MAX_PAIRS else ""
    return f"after {len(result.pairs)} pairs of epochs{out_of_time}"


def _pace(ratio: float) -> str:
    """Return in words how much longer an epoch takes, or how much shorter, at a speedup."""
    return f"{_percent(1 / ratio - 1)} slower" if ratio <= 1 else f"{ratio:.2f}x faster"


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %" if share < 1 else f"{share * 100:,.0f} %"


def what_is_left(speed: Speed, restarts_workers: bool) -> str:
    """Return a sentence that says where the time of an epoch goes now."""
    phase, seconds = max(speed.phases_after.items(), key=lambda item: item[1])
    share = seconds / sum(speed.phases_after.values())
    if phase == Phase.DATA_WAIT:
        restarts = ", which begins with starting the workers anew (persistent_workers=True keeps them)"
        return f"the loop still waits for data for {share:.0%} of an epoch{restarts if restarts_workers else ''}"
    if phase == Phase.OTHER:
        return f"{share:.0%} of an epoch goes into neither loading nor model nor optimizer: profile main() line by line"
    return f"what is left is mostly computation: the largest phase is {phase}, {share:.0%} of an epoch"


def how_far(result: RaceResult, left_s: float) -> str:
    """Say how far a race has come, and how long the rest takes at least and at most, if it may last `left_s`."""
    pairs = result.pairs
    at_most = f"{MIN_PAIRS} to {MAX_PAIRS}" if len(pairs) < MIN_PAIRS else f"at most {MAX_PAIRS}"
    so_far = f"pair {len(pairs)} of {at_most}: {mean_ratio(pairs):.2f}x so far"
    if result.faster is not None:
        return f"{so_far}, and that decides it"
    pair_s = fmean(pair.before_s + pair.after_s for pair in pairs)
    if len(pairs) >= MIN_PAIRS and pair_s > left_s:
        return f"{so_far}, and the time is over"
    at_least_s = max(1, MIN_PAIRS - len(pairs)) * pair_s
    at_most_s = max(at_least_s, min((MAX_PAIRS - len(pairs)) * pair_s, left_s)) * (len(pairs) < MAX_PAIRS)
    if at_most_s < 1:
        return so_far
    least = f"{at_least_s:.0f} to " if 1 <= round(at_least_s) < round(at_most_s) else "up to " * (at_least_s < 1)
    return f"{so_far}; {least}{at_most_s:.0f} s left"
