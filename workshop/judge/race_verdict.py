"""The verdict on a script that does the same work, from its race."""

from collections.abc import Sequence
from statistics import fmean

from workshop.judge.contest import Contest
from workshop.judge.ledger import Ledger
from workshop.judge.race import MAX_PAIRS, MIN_PAIRS, SURE, Pair, RaceResult, mean_ratio
from workshop.judge.step_proof import not_reproducible
from workshop.judge.verdict import Outcome, Speed, UnseenWork, Verdict
from workshop.probe.messages import Recomputation
from workshop.probe.phases import Phase

ROOM = 1.25
"""The solution must reach this many times the target; otherwise the machine cannot show that a script fails it."""

SLOWER, AS_FAST, FASTER = "slower than allowed", "not slower than allowed", "faster"


def verdict_on(
    contest: Contest, result: RaceResult, speed: Speed, ledgers: tuple[Ledger, Ledger], where: str, advice: str
) -> Verdict:
    """Return the verdict on the race of a contest, given the ledgers of the original and of the candidate.

    `where` says what of a step was raced, and is empty for all of it; `advice` is what to do if nothing was decided.
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
        return Verdict(subject, Outcome.UNDECIDED, (why, says), speed, advice)
    if contest.allowed is not None:
        return _slowdown_verdict(contest, result, speed, advice)
    then = "" if where else what_is_left(speed, candidate.restarts_workers)
    return race_verdict(subject, result, speed, says, then, advice)


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


def race_verdict(subject: str, result: RaceResult, speed: Speed, says: str, then: str, advice: str) -> Verdict:
    """Return the verdict on a script that does the same work; it is the one that the race's interval implies.

    `says` is a sentence with the speedup, and `then` is what to look at next; `advice`, if nothing was decided.
    """
    asked = f"{says}; target: {speed.target:g}x"
    solution = f"the solution reaches {speed.solution_ratio or 0.0:.1f}x here"
    undecided = ""
    if not result.faster and speed.solution_ratio and speed.solution_ratio < speed.target * ROOM:
        undecided = f"this machine hardly shows it now: even {solution}, and the target is {speed.target:g}x"
        asked = says
        if result.faster is None:
            asked = f"the speedup may be {speed.may_be}"
    elif result.faster is None:
        undecided = f"{_after_which_pairs(result, speed)}, the speedup may be {speed.may_be}; too noisy, or too close"
    notes = [solution] if speed.solution_ratio and solution not in undecided else []
    if undecided:
        return Verdict(subject, Outcome.UNDECIDED, (undecided, asked, *notes), speed, advice)
    if result.faster:
        return Verdict(subject, Outcome.DONE, (says, *notes), speed, then)
    return Verdict(subject, Outcome.NOT_YET, (asked, *notes), speed, then)


def _slowdown_verdict(contest: Contest, result: RaceResult, speed: Speed, advice: str) -> Verdict:
    """Return the verdict on a script that must not be slower than it was; it is the one that the interval implies.

    `advice` is what to do if nothing was decided.
    """
    subject = contest.subject
    found = f"{_pace(result.ratio)} than {contest.original_name}, same work (speed: {speed.may_be})"
    found = f"{found}; allowed: {_percent(contest.allowed or 0.0)} slower"
    if result.faster is None:
        after = _after_which_pairs(result, speed)
        may_be = f"{after}, its speed may be {speed.may_be}; too noisy, or too close"
        return Verdict(subject, Outcome.UNDECIDED, (may_be, found), speed, advice)
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


def how_far(pairs: Sequence[Pair]) -> str:
    """Say how far a race has come, and how long the rest takes at least, at the present pace."""
    so_far = f"pair {len(pairs)} of at most {MAX_PAIRS}: speedup {mean_ratio(pairs):.2f}x so far"
    left_s = max(1, MIN_PAIRS - len(pairs)) * fmean(pair.before_s + pair.after_s for pair in pairs)
    return f"{so_far}; at least {left_s:.0f} s left"
