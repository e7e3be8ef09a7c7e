"""Part 11: the same work as the fixed script, its printed results and files included, in hardly more time."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from workshop.judge.bench import Bench
from workshop.judge.race import MIN_PAIRS
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.verdict import NextStep, Outcome, Timing, Verdict, other_work
from workshop.parts.case import Case

STEPS = 100
"""Steps, at most, after which a script has left the results that the untouched one leaves."""


class CaseReason(ReasonKind):
    """What is said of a script's results, and of how much faster it is than it came."""

    NOT_PRINTED = "in more than {steps} steps it has not printed {text!r}, which the untouched script printed"
    NOT_WRITTEN = "in more than {steps} steps it has not written {file}, which the untouched script wrote"
    SPEEDUP = "Speedup {ratio:.1f}x over the untouched script: {of} took {before_s:.2f} s, and take {after_s:.2f} s now"


def check(bench: Bench, case: Case) -> Verdict:
    """Judge the training and its time, then what else the script has to leave; and say how much faster it is now."""
    verdict = bench.judge()
    if verdict.speed:  # its steps were seen
        verdict = other_work(bench.subject, list(missing_results(bench, case))) or verdict
    if verdict.outcome is not Outcome.DONE:
        return verdict
    timing = timing_of(bench, case)
    return replace(verdict, reasons=(speedup(timing), *verdict.reasons), next=NextStep(), timing=timing)


def missing_results(bench: Bench, case: Case) -> Iterator[Reason]:
    """Let the candidate take more than a hundred steps, and yield the results that it does not leave."""
    while (case.prints or case.writes) and len(bench.ledger().steps) <= STEPS:
        bench.epoch(bench.candidate)
    printed = bench.candidate.output.text()
    for text in case.prints:
        if text not in printed:
            yield CaseReason.NOT_PRINTED(steps=STEPS, text=text)
    for name in case.writes:
        if not (bench.candidate.work_folder / name).exists():
            yield CaseReason.NOT_WRITTEN(steps=STEPS, file=name)


def timing_of(bench: Bench, case: Case) -> Timing:
    """Time some steps of the untouched script and of the candidate, in turn."""
    bench.say(f"timing the untouched {case.script}")
    with bench.contest.script(case.untouched) as untouched:
        pairs = [(untouched.epoch().seconds, bench.candidate.epoch().seconds) for _ in range(MIN_PAIRS)]
    before_s, after_s = map(median, zip(*pairs, strict=True))
    first = "the first " if case.cause == "growing-steps" else ""  # of which the later ones take longer still
    return Timing("the untouched script", case.script, before_s, after_s, f"{first}{bench.steps} steps", MIN_PAIRS)


def speedup(timing: Timing) -> Reason:
    """Return what is said of the speedup."""
    seconds = {"before_s": timing.before_s, "after_s": timing.after_s}
    return CaseReason.SPEEDUP(ratio=timing.ratio, of=timing.of, **seconds)
