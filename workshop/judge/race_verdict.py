"""What a race, and the same work, come to: the verdict."""

from collections.abc import Sequence
from statistics import mean

from workshop.judge import sentences
from workshop.judge.busy_processes import advice
from workshop.judge.race import LEAD, MAX_PAIRS, SPREAD, Pair, Result
from workshop.judge.verdict import Outcome, Speed, Verdict
from workshop.probe.phases import Phase

ROOM = 1.25
"""The solution must reach the target times this on a machine, or nothing can be decided there."""


def race_verdict(
    subject: str, result: Result, speed: Speed, says: str, notes: tuple[str, ...], then: str = ""
) -> Verdict:
    """Return the verdict on a script that does the same work.

    Args:
        subject: what the verdict is about.
        result: of the race.
        speed: the figures.
        says: the speedup, in a sentence.
        notes: further sentences.
        then: what to look at next.
    """
    ratios = [pair.ratio for pair in result.pairs]
    asked = sentences.ASKED.format(says=says, target=speed.target)
    solution = sentences.SOLUTION.format(ratio=speed.solution_ratio or 0.0)
    if speed.high > SPREAD * speed.low:
        noisy = sentences.NOISY.format(low=min(ratios), high=max(ratios), target=speed.target)
        return Verdict(subject, Outcome.UNDECIDED, (noisy, *notes), next=advice())
    undecided = ""
    if not result.faster and speed.solution_ratio and speed.solution_ratio < speed.target * ROOM:
        undecided, asked = sentences.WEAK_MACHINE.format(solution=solution, target=speed.target), says
    elif result.faster is False and speed.high >= speed.target:
        undecided = sentences.MAY_BE_REACHED.format(target=speed.target)
    elif result.other_ratio is not None:
        undecided = sentences.NOT_REPEATED.format(first=result.ratio, second=result.other_ratio)
    elif result.faster is None and result.lead >= LEAD and result.may_be_no_gain:
        undecided = sentences.MAY_BE_NO_GAIN.format(low=min(ratios), high=max(ratios))
    elif result.faster is None:
        end = "" if speed.pairs == MAX_PAIRS else sentences.TIME_IS_OVER
        undecided = sentences.NO_LEAD.format(pairs=speed.pairs, end=end)
    if speed.solution_ratio and solution not in undecided:
        notes = (solution, *notes)
    if undecided:
        return Verdict(subject, Outcome.UNDECIDED, (undecided, asked, *notes), speed, advice())
    if result.faster:
        return Verdict(subject, Outcome.DONE, (says, *notes), speed, then)
    return Verdict(subject, Outcome.NOT_YET, (asked, *notes), speed, then)


def what_is_left(speed: Speed, restarts_workers: bool) -> str:
    """Return a sentence that says where the time of an epoch goes now."""
    phase, seconds = max(speed.phases_after.items(), key=lambda item: item[1])
    share = seconds / sum(speed.phases_after.values())
    if phase == Phase.DATA_WAIT:
        return (sentences.WAITS_FOR_WORKERS if restarts_workers else sentences.WAITS).format(share=share)
    return (sentences.GOES_ELSEWHERE if phase == Phase.OTHER else sentences.COMPUTES).format(phase=phase, share=share)


def how_far(pairs: Sequence[Pair], target: float) -> str:
    """Say how far a race is, and how long it takes if it goes on as it has gone so far."""
    result = Result(target, tuple(pairs))
    left = max(1, min(LEAD - abs(result.lead), MAX_PAIRS - len(pairs)))
    left_s = left * mean(pair.before_s + pair.after_s for pair in pairs)
    return sentences.PAIR.format(pairs=len(pairs), most=MAX_PAIRS, ratio=result.ratio, left_s=left_s)
