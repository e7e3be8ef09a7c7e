"""Part 6: which copies of batches count, and how they must be made."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workshop.course.checks import config_of, contest_of
from workshop.judge.contest import Contest
from workshop.judge.ledger import Ledger
from workshop.judge.race import MIN_PAIRS, Pair, RaceResult
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts import find_part
from workshop.parts.part6 import copies_check
from workshop.parts.part6.copies_check import (
    BLOCKING_VARIABLE,
    FAULTS,
    CopyReason,
    copied_ahead,
    copies_in,
    found_in,
    of_race,
    on_cuda,
    race_at,
    with_speed,
)
from workshop.parts.part6.copy_sizes import CopySize, best, measure
from workshop.probe.events import BatchCopied, ForwardPass, StepTaken
from workshop.probe.signature import encode
from workshop.traces.trace import Trace, read


def made_trace(
    folder: Path,
    call_us: int = 5,
    kind: str = "Pinned",
    stream: int = 20,
    wait: int | None = None,
    stream_waits: bool = False,
    thread: int = 7,
) -> Trace:
    """A trace of two steps: a batch and its targets are copied in 40 µs, and then a kernel is launched.

    `wait` is the stream that is waited for between the two, or -1 for the whole device; `stream_waits` makes the stream
    of the kernels wait for the copies there, and not the program. `thread` copies, and 7 launches the kernels.
    """
    events = []

    def add(cat: str, name: str, ts: int, dur: int, **args: Any) -> None:
        where = {"pid": 0, "tid": args["stream"]} if "stream" in args else {"pid": 7, "tid": args.pop("thread", 7)}
        events.append({"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": args} | where)

    for step, begin in enumerate((0, 1000)):
        for number, (at, size) in enumerate(((begin, 1 << 20), (begin + call_us, 64)), 10 * step):
            add("cuda_runtime", "cudaMemcpyAsync", at, call_us, correlation=number, thread=thread)
            copied = {"stream": stream, "correlation": number, "bytes": size}
            add("gpu_memcpy", f"Memcpy HtoD ({kind} -> Device)", at + 2, 40 if size > 64 else 1, **copied)
        if wait is not None:
            add(
                "cuda_runtime",
                "cudaStreamSynchronize",
                begin + 2 * call_us,
                50,
                correlation=10 * step + 5,
                thread=thread,
            )
            add("cuda_sync", "Stream Sync", begin + 2 * call_us, 50, correlation=10 * step + 5, stream=wait)
        if stream_waits:
            waits = {"stream": 7, "wait_on_stream": stream, "correlation": 10 * step + 7}
            add("cuda_runtime", "cudaStreamWaitEvent", begin + 100, 2, correlation=10 * step + 7)
            add("cuda_sync", "Stream Wait Event", begin + 100, 2, **waits)
        add("cuda_runtime", "cudaLaunchKernel", begin + 200, 5, correlation=10 * step + 6)
        add("kernel", "gemm", begin + 207, 300, stream=7, correlation=10 * step + 6)
    path = folder / "copies.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return read(path)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ({}, CopyReason.BESIDE_KERNELS),
        ({"wait": 7}, CopyReason.BESIDE_KERNELS),  # the stream that computes is waited for
        ({"kind": "Pageable", "stream": 7, "call_us": 45}, CopyReason.NOT_PINNED),
        ({"wait": 20}, CopyReason.WAITED_FOR),
        ({"wait": -1}, CopyReason.WAITED_FOR),
        ({"wait": 20, "thread": 8}, CopyReason.BESIDE_KERNELS),  # by a thread that does nothing else
        ({"call_us": 45}, CopyReason.BESIDE_KERNELS),  # a call may take longer than a small copy
        ({"stream_waits": True}, CopyReason.WAITED_FOR),  # the kernels of the batch before
        ({"stream": 7}, CopyReason.STREAM_OF_KERNELS),
    ],
)
def test_how_batches_are_copied(made: dict[str, Any], kind: CopyReason, tmp_path: Path) -> None:
    found = found_in(copies_in(made_trace(tmp_path, **made)))
    assert found == (kind(copies=2, all=2) if kind in FAULTS.values() else kind())


def test_where_every_call_waits_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BLOCKING_VARIABLE, "1")
    verdict = on_cuda(SimpleNamespace(subject="part6"), ())  # type: ignore[arg-type]
    assert verdict.outcome is Outcome.NOT_YET
    assert [each.kind for each in verdict.reasons] == [CopyReason.LAUNCH_BLOCKING]


def test_a_trace_without_copies_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]}'
    )
    assert found_in(copies_in(read(tmp_path / "none.json"))) == CopyReason.NOT_SEEN()


@pytest.mark.parametrize(
    ("copied", "found"),
    [
        ([(0.5, 1)], (1, 0, 1)),
        ([(1.5, 1)], (0, 0, 1)),
        ([(0.5, 1), (1.5, 1)], (1, 0, 1)),  # it was there already
        ([(0.5, 1), (1.5, 2)], (0, 1, 1)),  # the first copy was for show
        ([(0.5, 1), (2.5, 2)], (1, 0, 1)),
    ],
)
def test_the_last_copy_before_the_model_begins_counts(copied: list[tuple[float, int]], found: tuple[int, ...]) -> None:
    pictures = [encode(each) for each in np.random.default_rng(0).normal(size=(2, 1, 192)).astype(np.float32)]
    forwards = [ForwardPass(1.0 + n, (1, 3, 8, 8), "float32", "cpu", False, each) for n, each in enumerate(pictures)]
    steps = [StepTaken(each.t, 1, 1, (each,), 1, (0.0,)) for each in forwards]
    copies = [BatchCopied(t, 1, 1, pictures[1], memory) for t, memory in copied]
    assert copied_ahead(Ledger(steps=steps, copies=copies), 2) == found


def contest_of_solution(data: Path) -> Contest:
    part = find_part("part6")
    assert part.solution
    return contest_of(part, part.solution, config_of(part, None), data, "cpu")


SIZES = [CopySize(128, 16, 0.5e-3, 6e-3), CopySize(224, 64, 5e-3, 9e-3), CopySize(448, 64, 20e-3, 60e-3)]
"""Small batches take as long as the launches of their kernels; of large ones, copies and kernels grow alike."""


def test_the_size_at_which_copying_takes_the_largest_share_is_raced() -> None:
    assert best(SIZES) is SIZES[1]
    assert SIZES[1].share == pytest.approx(5 / 14)
    assert best([]) is None


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (SIZES[0], CopyReason.NOTHING_TO_HIDE(side=128, batch=16, share=SIZES[0].share)),
        (None, CopyReason.NO_SIZE_FITS()),
    ],
)
def test_where_no_size_will_do_that_is_said_and_nothing_raced(size: CopySize | None, said: CopyReason) -> None:
    found = with_speed(Verdict("part6", Outcome.DONE, ()), SimpleNamespace(), size)  # type: ignore[arg-type]
    assert (found.outcome, found.reasons, found.timing) == (Outcome.DONE, (said,), None)


@pytest.mark.parametrize(
    ("after_ms", "outcome"),
    [
        ((10.0, 10.2, 10.1), Outcome.DONE),
        ((14.0, 14.6, 13.1), Outcome.UNDECIDED),
        ((16.0, 16.1, 16.2), Outcome.NOT_YET),
    ],
)
def test_it_is_done_only_with_a_speedup_that_is_certain(after_ms: tuple[float, ...], outcome: Outcome) -> None:
    result = RaceResult(1.0, tuple(Pair(14e-3, each / 1e3) for each in after_ms))
    verdict = of_race(Verdict("part6", Outcome.DONE, ()), result, SIZES[1], contest_of_solution(Path("data")))
    [said] = verdict.reasons
    assert verdict.outcome is outcome
    assert said.kind is CopyReason.SPEEDUP
    assert (result.interval[0] > 1) is (outcome is Outcome.DONE)
    assert "with 64 pictures of 224 px a batch, copying takes 36% of a step" in str(said)
    assert verdict.timing
    assert verdict.timing.ratio == pytest.approx(result.ratio)


def test_sizes_are_measured_by_steps_of_the_parts_model() -> None:
    [found] = measure("cpu", [(64, 2)])
    assert (found.side, found.batch) == (64, 2)
    assert 0 < found.copy_s < found.compute_s


@pytest.mark.slow
def test_both_scripts_are_raced_at_a_size_of_their_own(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the pictures, two batches are enough here."""
    contest = contest_of_solution(data)
    with_sizes = contest.with_sizes
    assert with_sizes
    few = replace(contest, with_sizes=lambda **sizes: with_sizes(**sizes | {"max_items": 128}))
    monkeypatch.setattr(copies_check, "RACE_S", 0.1)
    result = race_at(few, CopySize(40, 64, 0.1, 0.4))
    assert len(result.pairs) == MIN_PAIRS
    assert all(0 < each.before_s < 100 and 0 < each.after_s < 100 for each in result.pairs)
