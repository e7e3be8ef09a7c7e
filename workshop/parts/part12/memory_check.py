"""Part 12: the same training with its validation and its figures, in far less memory, and hardly slower."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from workshop.judge.bench import Bench
from workshop.judge.ledger import Ledger
from workshop.judge.proof import check_without_gradients
from workshop.judge.verdict import MemoryPeaks, Outcome, Verdict, other_work
from workshop.memory.device_peak import DevicePeak
from workshop.memory.followed_run import FollowedRun, follow

MIB = 1 << 20

LIMIT_MIB = 32
"""The most that all tensors of the training may take together."""

MAX_GROWTH_MIB = 16
"""After the first steps, the process may have so much more: what allocators keep in reserve goes up and down, by 7 MiB
in the solution. The forecasts and what has fallen, kept as arrays of NumPy for the rest of an epoch, take 34 MiB."""

SAME = 0.02
"""Figures that are printed may differ by this share: another order of additions rounds in another way."""

FIGURES = re.compile(r"^Epoch 1\b.*", re.MULTILINE)


def check(bench: Bench) -> Verdict:
    """Judge the memory, then the training, its validation and its figures, then whether it has become slower."""
    contest = bench.contest
    command = contest.command(contest.candidate, contest.candidate.parent, 0)
    run = follow(command, bench.steps + 1, bench.say)  # an epoch, and its validation
    if too_much := over_the_limit(run, bench.subject, contest.candidate.name):
        return replace(too_much, memory=peaks_of(run, bench, and_before=False))
    bench.referee.also = other_results
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
        return other_work(subject, ["no training was seen: no model was called and stepped by an optimizer"])
    if peak.memory.peak_bytes > LIMIT_MIB * MIB:
        has = f"{peak.memory.peak_bytes / MIB:.1f} MiB of tensors {place(peak)}; the limit is {LIMIT_MIB} MiB"
    elif run.grown_bytes > MAX_GROWTH_MIB * MIB:
        has = (
            f"the process has grown by {run.grown_bytes / MIB:.0f} MiB after its first steps, and its tensors do not "
            f"need it: something that is no tensor holds it, as an array of NumPy or a list; {MAX_GROWTH_MIB} MiB are "
            "allowed"
        )
    else:
        return None
    return Verdict(subject, Outcome.NOT_YET, (has,), next=f"workshop memory {script} --epochs 100")


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


def within(run: FollowedRun, peaks: MemoryPeaks | None = None) -> Iterator[str]:
    """Yield how far below the limit a script is, and where it came from."""
    if peak := run.peak:
        was = f"; the {peaks.before}: {peaks.before_bytes / MIB:.1f} MiB" if peaks and peaks.before_bytes else ""
        has = f"{peak.memory.peak_bytes / MIB:.1f} MiB of tensors {place(peak)}"
        yield f"{has}, of {LIMIT_MIB} MiB that are allowed{was}"


def place(peak: DevicePeak) -> str:
    """Return when there was most."""
    when = "in the validation after" if peak.segment.name == "validation" else "in"
    return f"at the peak, {when} step {peak.segment.step}"


def other_results(original: Ledger, candidate: Ledger, _: Sequence[Path]) -> Iterator[str]:
    """Yield what is wrong with the validation: it must see as many sequences."""
    yield from map(str, check_without_gradients(original, candidate))


def printed_by(bench: Bench) -> tuple[str, str]:
    """Return the first line of figures of the untouched script and of the candidate; empty where there is none."""
    outputs = (script.output.text() for script in (bench.original, bench.candidate))
    ours, theirs = (FIGURES.search(text) for text in outputs)
    return ours[0] if ours else "", theirs[0] if theirs else ""


def other_figures(original: str, candidate: str) -> Iterator[str]:
    """Yield what differs in the figures of the first epoch, which all runs begin with the same random numbers."""
    usual, now = (list(map(float, re.findall(r"\d+\.\d+", line))) for line in (original, candidate))
    if not now:
        yield f"it does not print the figures of an epoch, as the untouched script does: {original}"
    elif len(now) != len(usual) or any(abs(one - other) > SAME * other for one, other in zip(now, usual, strict=True)):
        yield f"it prints other figures: {candidate}; the untouched script: {original}"
