"""Part 12: the same training with its validation and its figures, in far less memory, and hardly slower."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from workshop.judge.bench import Bench
from workshop.judge.ledger import Ledger
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.verdict import MemoryPeaks, NextStep, Outcome, Verdict, other_work
from workshop.judge.work_proof import check_without_gradients
from workshop.memory.memory_lines import DevicePeak
from workshop.memory.memory_run import FollowedRun, follow

MIB = 1 << 20

LIMIT_MIB = 32
"""MiB, at most, that all tensors of the training may take together."""

MAX_GROWTH_MIB = 16
"""MiB, at most, by which the process may grow after its first steps: what allocators keep in reserve goes up and down,
by 7 in the solution. The forecasts and what has fallen, kept as arrays of NumPy for the rest of an epoch, take 34."""

MAX_DIFFERENCE = 0.02
"""Share, at most, by which printed figures may differ: another order of additions rounds in another way."""

FIGURES = re.compile(r"^Epoch 1\b.*", re.MULTILINE)


class MemoryReason(ReasonKind):
    """What is said of a script's memory, and of the figures that it prints."""

    NO_TRAINING = "no training was seen: no model was called and stepped by an optimizer"
    IN_STEP = "{mib:.1f} MiB of tensors at the peak, in step {step}"
    IN_VALIDATION = "{mib:.1f} MiB of tensors at the peak, in the validation after step {step}"
    OVER_LIMIT = "{0}; the limit is {limit_mib} MiB"
    GROWS = (
        "the process has grown by {mib:.0f} MiB after its first steps, and its tensors do not need it: something that "
        "is no tensor holds it, as an array of NumPy or a list; {limit_mib} MiB are allowed"
    )
    WITHIN_LIMIT = "{0}, of {limit_mib} MiB that are allowed"
    WITHIN_LIMIT_NOW = "{0}, of {limit_mib} MiB that are allowed; the {before}: {before_mib:.1f} MiB"
    FEWER_VALIDATED = "{0}"
    NO_FIGURES = "it does not print the figures of an epoch, as the untouched script does: {original}"
    OTHER_FIGURES = "it prints other figures: {candidate}; the untouched script: {original}"


def check(bench: Bench) -> Verdict:
    """Judge the memory, then the training, its validation and its figures, then whether it has become slower."""
    contest = bench.contest
    command = contest.command(contest.candidate, contest.candidate.parent, 0)
    run = follow(command, bench.steps + 1, bench.say)  # an epoch, and its validation
    if too_much := over_the_limit(run, bench.subject, contest.candidate.name):
        return replace(too_much, memory=peaks_of(run, bench, and_before=False))
    bench.also = other_results
    bench.start()
    bench.epoch(bench.original)  # it prints its figures only in the next epoch of the check
    if refused := bench.refusal() or other_work(bench.subject, [*other_figures(*printed_by(bench))]):
        return refused
    verdict = bench.race()
    words = "" if verdict.outcome is Outcome.DONE else verdict.words
    peaks = peaks_of(run, bench)
    return replace(verdict, reasons=(*within(run, peaks), *verdict.reasons), words=words, memory=peaks)


def over_the_limit(run: FollowedRun, subject: str, script: str) -> Verdict | None:
    """Return the verdict on a script that has more in memory than it may; None if it has not."""
    peak = run.peak
    if peak is None:
        return other_work(subject, [MemoryReason.NO_TRAINING()])
    if peak.memory.peak_bytes > LIMIT_MIB * MIB:
        reason = MemoryReason.OVER_LIMIT(place(peak), limit_mib=LIMIT_MIB)
    elif run.grown_bytes > MAX_GROWTH_MIB * MIB:
        reason = MemoryReason.GROWS(mib=run.grown_bytes / MIB, limit_mib=MAX_GROWTH_MIB)
    else:
        return None
    look = NextStep((f"workshop memory {script} --epochs 100",))
    return Verdict(subject, Outcome.NOT_YET, (reason,), next=look)


def peaks_of(run: FollowedRun, bench: Bench, and_before: bool = True) -> MemoryPeaks | None:
    """Return the most memory of the candidate and, if that is wanted, of the untouched script, which is run for it."""
    contest = bench.contest
    if run.peak is None:
        return None
    untouched = contest.original_name.removeprefix("the ")
    peaks = MemoryPeaks(untouched, contest.candidate.name, run.peak.memory.peak_bytes, LIMIT_MIB * MIB)
    if not and_before:
        return peaks
    if bench.original_bytes is None:
        bench.say(f"measuring the memory of {contest.original_name} on this machine, once")
        command = contest.command(contest.original, contest.original.parent, 0)
        before = follow(command, bench.steps + 1, bench.say).peak
        bench.original_bytes = before.memory.peak_bytes if before else None
    return replace(peaks, before_bytes=bench.original_bytes)


def within(run: FollowedRun, peaks: MemoryPeaks | None = None) -> Iterator[Reason]:
    """Yield how far below the limit a script is, and where it came from."""
    if run.peak and peaks and peaks.before_bytes:
        before = {"before": peaks.before, "before_mib": peaks.before_bytes / MIB}
        yield MemoryReason.WITHIN_LIMIT_NOW(place(run.peak), limit_mib=LIMIT_MIB, **before)
    elif run.peak:
        yield MemoryReason.WITHIN_LIMIT(place(run.peak), limit_mib=LIMIT_MIB)


def place(peak: DevicePeak) -> Reason:
    """Return how much there was at most, and when."""
    kind = MemoryReason.IN_VALIDATION if peak.segment.name == "validation" else MemoryReason.IN_STEP
    return kind(mib=peak.memory.peak_bytes / MIB, step=peak.segment.step)


def other_results(original: Ledger, candidate: Ledger, _: Sequence[Path]) -> Iterator[Reason]:
    """Yield what is wrong with the validation: it must see as many sequences."""
    yield from map(MemoryReason.FEWER_VALIDATED, check_without_gradients(original, candidate))


def printed_by(bench: Bench) -> tuple[str, str]:
    """Return the first line of figures of the untouched script and of the candidate; empty where there is none."""
    outputs = (script.output.text() for script in (bench.original, bench.candidate))
    ours, theirs = (FIGURES.search(text) for text in outputs)
    return ours[0] if ours else "", theirs[0] if theirs else ""


def other_figures(original: str, candidate: str) -> Iterator[Reason]:
    """Yield what differs in the figures of the first epoch, which all runs begin with the same random numbers."""
    ours, theirs = (list(map(float, re.findall(r"\d+\.\d+", line))) for line in (original, candidate))
    if not theirs:
        yield MemoryReason.NO_FIGURES(original=original)
    elif len(theirs) != len(ours) or any(
        abs(one - other) > MAX_DIFFERENCE * other for one, other in zip(theirs, ours, strict=True)
    ):
        yield MemoryReason.OTHER_FIGURES(candidate=candidate, original=original)
