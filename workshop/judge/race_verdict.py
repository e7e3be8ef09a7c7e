"""The verdict on a script that does the same work, from its race."""

from collections.abc import Sequence
from statistics import mean

from workshop.judge.race import LEAD, MAX_PAIRS, SPREAD, Pair, RaceResult
from workshop.judge.verdict import Outcome, Speed, Verdict
from workshop.probe.phases import Phase

ROOM = 1.25
"""The solution must reach this many times the target; otherwise the machine cannot show that a script fails it."""


def race_verdict(
    subject: str, result: RaceResult, speed: Speed, says: str, notes: tuple[str, ...], then: str, advice: str
) -> Verdict:
    """Return the verdict on a script that does the same work.

    `says` is a sentence with the speedup, `notes` are further sentences, and `then` is what to look at next; `advice`,
    if nothing was decided.
    """
    ratios = [pair.ratio for pair in result.pairs]
    asked = f"{says}; asked: {speed.target:g}x"
    solution = f"the solution reaches {speed.solution_ratio or 0.0:.1f}x here"
    if speed.high > SPREAD * speed.low:
        noisy = (
            f"too noisy: the speedups of the pairs of epochs were {min(ratios):.2f}x to {max(ratios):.2f}x; asked: "
            f"{speed.target:g}x"
        )
        return Verdict(subject, Outcome.UNDECIDED, (noisy, *notes), next=advice)
    undecided = ""
    if not result.faster and speed.solution_ratio and speed.solution_ratio < speed.target * ROOM:
        undecided, asked = f"this machine cannot show it now: {solution}; asked: {speed.target:g}x", says
    elif result.faster is False and speed.high >= speed.target:
        undecided = f"too noisy: the speedup may be {speed.target:g}x or more"
    elif result.other_ratio is not None:
        undecided = f"speedup {result.ratio:.2f}x in one run of both, and {result.other_ratio:.2f}x in another"
    elif result.faster is None and result.lead >= LEAD and result.may_be_no_gain:
        undecided = (
            f"the pairs of epochs had speedups of {min(ratios):.2f}x to {max(ratios):.2f}x, so there may be no gain"
        )
    elif result.faster is None:
        end = "" if speed.pairs == MAX_PAIRS else " when the time ran out"
        undecided = f"after {speed.pairs} pairs of epochs neither side leads by three{end}: too noisy, or too close"
    if speed.solution_ratio and solution not in undecided:
        notes = (solution, *notes)
    if undecided:
        return Verdict(subject, Outcome.UNDECIDED, (undecided, asked, *notes), speed, advice)
    if result.faster:
        return Verdict(subject, Outcome.DONE, (says, *notes), speed, then)
    return Verdict(subject, Outcome.NOT_YET, (asked, *notes), speed, then)


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


def how_far(pairs: Sequence[Pair], target: float) -> str:
    """Say how far a race has come, and how long the rest takes at least, at the present pace."""
    result = RaceResult(target, tuple(pairs))
    left = max(1, min(LEAD - abs(result.lead), MAX_PAIRS - len(pairs)))
    left_s = left * mean(pair.before_s + pair.after_s for pair in pairs)
    return f"pair {len(pairs)} of at most {MAX_PAIRS}: speedup {result.ratio:.2f}x so far; at least {left_s:.0f} s left"
