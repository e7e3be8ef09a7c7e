"""What a process is doing is sampled from inside, without preferring one kind of code."""

import gc
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, _utils

from workshop.diagnosis.samples import Sample, read_observations
from workshop.probe import stack_sampler
from workshop.probe.event_file import EventFile
from workshop.probe.garbage import no_collections
from workshop.probe.internals import frames_of, sites_of
from workshop.probe.observations import Role
from workshop.probe.stack_sampler import StackSampler, stack_here


def in_python(times: int) -> float:
    """Compute in Python, in steps that are much shorter than Python's switch interval."""
    total = 0.0
    for number in range(times):
        total += number * 0.5
    return total


def in_torch(tensor: torch.Tensor) -> torch.Tensor:
    """Let go of the interpreter's lock while computing."""
    return tensor.exp().log()


def sampled(folder: Path, seconds: float) -> tuple[list[Sample], Counter[str]]:
    """The samples of a loop of a few lines, and how long each of its functions really took."""
    main, took, tensor = threading.get_ident(), Counter[str](), torch.zeros(30_000)  # too small for several threads
    sampler = StackSampler(EventFile(str(folder)), lambda: (main, Role.TRAINING, "other"), period_s=0.004)
    sampler.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for call in (lambda: in_python(10_000), lambda: in_torch(tensor)):
            begin = time.monotonic()
            call()
            took[call.__code__.co_names[0]] += time.monotonic() - begin  # type: ignore[assignment]
    sampler.stop()
    return read_observations(folder, [os.getpid()]).samples, took


@pytest.mark.acceptance
def test_each_line_has_the_share_that_it_takes(tmp_path: Path) -> None:
    samples, took = sampled(tmp_path, 1.5)
    assert {each.role for each in samples} == {Role.TRAINING}
    assert sum(each.weight_s for each in samples) == pytest.approx(1.5, abs=0.3)
    seen = Counter[str]()
    for each in samples:
        names = {frame.name for frame in each.stack}
        seen["in_python" if "in_python" in names else "other"] += each.weight_s  # type: ignore[assignment]
    share = seen["in_python"] / seen.total()
    assert 0.3 < share / (took["in_python"] / took.total()) < 1.4, "by default, nearly all of it would be missed"
    lines = {frame.line for each in samples for frame in each.stack if frame.name == "in_python"}
    first = in_python.__code__.co_firstlineno
    assert lines <= set(range(first + 2, first + 6)), "never the line of the def"


def test_a_sample_has_a_line_of_the_function_that_runs(tmp_path: Path) -> None:
    """Never that of the def."""
    main, asked = threading.get_ident(), list[float]()

    def whom() -> tuple[int, Role, str]:
        asked.append(time.monotonic())
        return main, Role.TRAINING, "other"

    sampler = StackSampler(EventFile(str(tmp_path)), whom, period_s=0.001)
    sampler.start()
    while len(asked) < 30:
        in_python(10_000)
    sampler.stop()
    samples = read_observations(tmp_path, [os.getpid()]).samples
    assert {(each.role, each.phase) for each in samples} == {(Role.TRAINING, "other")}
    assert 0 < len(samples) <= len(asked)
    lines = {frame.line for each in samples for frame in each.stack if frame.name == "in_python"}
    first = in_python.__code__.co_firstlineno
    assert lines
    assert lines <= set(range(first + 2, first + 6))


def test_the_switch_interval_is_put_back_unless_the_script_has_chosen_another_one(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    try:
        for chosen in (None, 0.001):
            sampler = StackSampler(EventFile(str(tmp_path)), lambda: (0, Role.TRAINING, ""))
            sampler.start()
            assert sys.getswitchinterval() < before
            if chosen:
                sys.setswitchinterval(chosen)
            sampler.stop()
            assert sys.getswitchinterval() == pytest.approx(chosen or before)
    finally:
        sys.setswitchinterval(before)


def fails() -> tuple[int, Role, str]:
    raise LookupError("no thread")


def test_a_sampler_that_fails_ends_alone_and_that_is_known(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = sys.getswitchinterval()
    sampler = StackSampler(EventFile(str(tmp_path)), fails, period_s=0.001)
    sampler.start()
    sampler._thread.join()
    assert sys.getswitchinterval() == before
    assert read_observations(tmp_path, [os.getpid()]).lost == "LookupError: no thread"
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(("other", "lost"), [("signature", ""), ("sampler", "TypeError")])
def test_workers_work_on_whatever_becomes_of_their_sampler(
    other: str, lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _utils.worker._worker_loop

    def torch_of_some_other_year(a: Any, *rest: Any, **more: Any) -> None:
        real(a, *rest, **more)

    monkeypatch.setattr(_utils.worker, "_worker_loop", torch_of_some_other_year if other == "signature" else real)
    if other == "sampler":
        monkeypatch.setattr(stack_sampler, "StackSampler", None)
    stack_sampler.watch_workers(EventFile(str(tmp_path)), _utils.worker)
    loaded = DataLoader([0, 1, 2, 3], num_workers=2, multiprocessing_context="fork")
    assert [int(each) for each in loaded] == [0, 1, 2, 3]
    found = read_observations(tmp_path, [os.getpid()])
    assert found.lost.startswith(lost) if lost else not found.lost
    assert (len(found.cpu) == 0) == (other == "sampler")


def test_a_stack_as_it_is() -> None:
    names = [name for name, _, _ in stack_here(0)]
    assert names[-1] == "test_a_stack_as_it_is"


def test_no_garbage_is_looked_for_while_frames_are_read() -> None:
    """What finds it calls finalizers that may let the thread go on, whose frames then end while they are being read."""
    collected_in: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collected_in.append(stack_here(0)[-2][0])

    def deep(left: int) -> None:
        if left:
            return deep(left - 1)
        at_bottom.set()
        return done.wait() and None

    at_bottom, done, before = threading.Event(), threading.Event(), gc.get_threshold()
    thread = threading.Thread(target=deep, args=(100,))
    thread.start()
    at_bottom.wait()
    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        frames = list(frames_of(thread.ident or 0))
        assert sites_of(thread.ident or 0) == [(each.f_code, each.f_lasti) for each in frames]
        assert sites_of(0) == [], "no such thread"
        assert gc.isenabled()
        with no_collections():
            assert len(list(frames_of(thread.ident or 0))) == len(frames) > 100
            assert not gc.isenabled(), "as it was before"
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(note)
        done.set()
        thread.join()
    assert collected_in, "it was looked for elsewhere"
    assert collected_in.count("frames_of") < 10, "at the beginning and the end, but not for each frame"
