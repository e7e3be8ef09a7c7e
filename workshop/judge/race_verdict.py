"""The verdict on a script that does the same work, from its race."""

from collections.abc import Callable, Sequence
from statistics import fmean

from workshop.judge.race import MAX_PAIRS, MIN_PAIRS, Pair, RaceResult, mean_ratio
from workshop.judge.verdict import Outcome, Speed, Verdict
from workshop.probe.phases import Phase

ROOM = 1.25
"""The solution must reach this many times the target; otherwise the machine cannot show that a script fails it."""


def race_verdict(
    subject: str, result: RaceResult, speed: Speed, says: str, notes: tuple[str, ...], then: str, advice: str
) -> Verdict:
    """Return the verdict on a script that does the same work; it is the one that the race's interval implies.

    `says` is a sentence with the speedup, `notes` are further sentences, and `then` is what to look at next; `advice`,
    if nothing was decided.
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
        undecided = (
            f"{after_which_pairs(result, speed.text)}, the speedup may be {speed.may_be}; too noisy, or too close"
        )
    if speed.solution_ratio and solution not in undecided:
        notes = (solution, *notes)
    if undecided:
        return Verdict(subject, Outcome.UNDECIDED, (undecided, asked, *notes), speed, advice)
    if result.faster:
        return Verdict(subject, Outcome.DONE, (says, *notes), speed, then)
    return Verdict(subject, Outcome.NOT_YET, (asked, *notes), speed, then)


def after_which_pairs(result: RaceResult, say: Callable[[float], str]) -> str:
    """Return how far a race came that has decided nothing; `say` writes a speedup without its "x"."""
    if result.again:
        one, other = (say(mean_ratio(pairs)) for pairs in (result.pairs, result.again))
        return f"with {one}x in one run of both and {other}x in another"
    out_of_time = ", when the time ran out" if len(result.pairs) < MAX_PAIRS else ""
    return f"after {len(result.pairs)} pairs of epochs{out_of_time}"


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
