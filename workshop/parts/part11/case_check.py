"""Part 11: the same work as the fixed script, its printed results and files included, in hardly more time."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from workshop.judge.bench import Bench
from workshop.judge.verdict import Outcome, Timing, Verdict, other_work
from workshop.parts.case import Case

EPOCHS = 3
"""The number of epochs that the untouched script is timed for, in turn with the participant's."""

STEPS = 100
"""By this many steps, a script has left the results that the untouched one leaves."""


def check(bench: Bench, case: Case) -> Verdict:
    """Judge the training and its time, then what else the script has to leave; and say how much faster it is now."""
    verdict = bench.judge()
    if verdict.speed:  # its steps were seen
        verdict = other_work(bench.subject, list(missing_results(bench, case))) or verdict
    if verdict.outcome is not Outcome.DONE:
        return verdict
    timing = timing_of(bench, case)
    return replace(verdict, reasons=(speedup(timing), *verdict.reasons), next="", timing=timing)


def missing_results(bench: Bench, case: Case) -> Iterator[str]:
    """Let the candidate take more than a hundred steps, and yield the results that it does not leave."""
    while (case.prints or case.writes) and len(bench.ledger().steps) <= STEPS:
        bench.epoch(bench.candidate)
    printed = bench.candidate.output.text()
    for text in case.prints:
        if text not in printed:
            yield f"in more than {STEPS} steps it has not printed {text!r}, which the untouched script printed"
    for name in case.writes:
        if not (bench.candidate.work_folder / name).exists():
            yield f"in more than {STEPS} steps it has not written {name}, which the untouched script wrote"


def timing_of(bench: Bench, case: Case) -> Timing:
    """Time some steps of the untouched script and of the candidate, in turn."""
    bench.say(f"timing the untouched {case.script}")
    with bench.contest.script(case.untouched) as untouched:
        pairs = [(untouched.epoch().seconds, bench.candidate.epoch().seconds) for _ in range(EPOCHS)]
    before_s, after_s = map(median, zip(*pairs, strict=True))
    first = "the first " if case.cause == "growing-steps" else ""  # of which the later ones take longer still
    return Timing("the untouched script", case.script, before_s, after_s, f"{first}{bench.steps} steps", EPOCHS)


def speedup(timing: Timing) -> str:
    """Return the speedup, in a sentence."""
    steps = f"{timing.of} took {timing.before_s:.2f} s, and take {timing.after_s:.2f} s now"
    return f"Speedup {timing.ratio:.1f}x over the untouched script: {steps}"
