"""The verdict on a script that must not be slower than it was, from its race."""

from workshop.judge.race import RaceResult
from workshop.judge.race_verdict import after_which_pairs
from workshop.judge.verdict import Outcome, Speed, Verdict

SLOWER, AS_FAST, FASTER = "slower than allowed", "not slower than allowed", "faster"


def slowdown_verdict(
    subject: str, base: str, result: RaceResult, speed: Speed, allowed: float, notes: tuple[str, ...], advice: str
) -> Verdict:
    """Return the verdict on a script that does the same work; it is the one that the race's interval implies.

    Args:
        subject: the script.
        base: the name of what it was raced against.
        result: the race, with the target that `allowed` implies.
        speed: its figures.
        allowed: the slowdown that is still fine, such as 0.05.
        notes: further sentences.
        advice: what to do if nothing was decided.
    """
    low, high = result.interval
    found = f"{pace(result.ratio)} than {base}, same work ({between(low, high)}); allowed: {_percent(allowed)} slower"
    if result.faster is None:
        after = after_which_pairs(result, speed.text)
        may_be = f"{after}, it may be {between(low, high)}; too noisy, or too close"
        return Verdict(subject, Outcome.UNDECIDED, (may_be, found, *notes), speed, advice)
    if result.faster:
        return Verdict(subject, Outcome.DONE, (found, *notes), speed, words=FASTER if low > 1 else AS_FAST)
    return Verdict(subject, Outcome.NOT_YET, (found, *notes), speed, words=SLOWER)


def pace(ratio: float) -> str:
    """Return in words how much longer an epoch takes, or how much shorter, at a speedup."""
    return f"{_percent(1 / ratio - 1)} slower" if ratio <= 1 else f"{ratio:.2f}x faster"


def between(low: float, high: float) -> str:
    """Return an interval of the speedup in words, the slower end last."""
    if low <= 0:
        return "anything: the pairs differ too much"
    return f"{pace(high)} to {pace(low)}"


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"
