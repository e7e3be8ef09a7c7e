"""Part 11: the same work as the fixed script, its printed results and files included, in hardly more time."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from workshop.judge.bench import Bench
from workshop.judge.verdict import Outcome, Verdict, other_work
from workshop.parts.case import Case

EPOCHS = 3
"""The number of epochs that the script as it came is timed for, in turn with the participant's."""


def check(bench: Bench, case: Case) -> Verdict:
    """Judge the training and its time, then what else the script has to leave; and say how much faster it is now."""
    verdict = bench.judge()
    if verdict.outcome is not Outcome.DONE:
        return verdict
    if refused := other_work(bench.subject, list(left_out(bench, case))):
        return refused
    return replace(verdict, reasons=(gained(bench, case), *verdict.reasons), next="")


def left_out(bench: Bench, case: Case) -> Iterator[str]:
    """Yield the results that the candidate does not leave, after more than a hundred steps."""
    printed = bench.candidate.output.text()
    for text in case.prints:
        if text not in printed:
            yield f"in more than a hundred steps it has not printed {text!r}, which the script printed as it came"
    for name in case.writes:
        if not (bench.candidate.work_folder / name).exists():
            yield f"in more than a hundred steps it has not written {name}, which the script wrote as it came"


def gained(bench: Bench, case: Case) -> str:
    """Time some steps of the script as it came, and of the candidate, and return what was gained, in a sentence."""
    bench.say(f"timing {case.script} as it came")
    with bench.contest.script(case.untouched) as untouched:
        pairs = [(untouched.epoch().seconds, bench.candidate.epoch().seconds) for _ in range(EPOCHS)]
    before_s, after_s = map(median, zip(*pairs, strict=True))
    first = "the first " if case.cause == "growing-steps" else ""  # of which the later ones take longer still
    steps = f"{first}{bench.steps} steps took {before_s:.2f} s as it came, and take {after_s:.2f} s now"
    return f"Speedup {before_s / after_s:.1f}x over the script as it came: {steps}"
