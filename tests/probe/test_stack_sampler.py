"""What a process is doing is sampled from inside, without preferring one kind of code."""

import os
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import torch

from workshop.diagnosis.samples import Sample, read_observations
from workshop.probe.event_file import EventFile
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
    main, took, tensor = threading.get_ident(), Counter[str](), torch.zeros(100_000)
    sampler = StackSampler(EventFile(str(folder)), lambda: (main, Role.TRAINING, "other"), period_s=0.004)
    sampler.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for call in (lambda: in_python(10_000), lambda: in_torch(tensor)):
            begin = time.monotonic()
            call()
            took[call.__code__.co_names[0]] += time.monotonic() - begin  # type: ignore[assignment]
    sampler.stop()
    return read_observations(folder, os.getpid()).samples, took


def test_each_line_has_the_share_that_it_takes(tmp_path: Path) -> None:
    samples, took = sampled(tmp_path, 1.5)
    assert {each.role for each in samples} == {Role.TRAINING}
    assert sum(each.weight_s for each in samples) == pytest.approx(1.5, abs=0.3)
    seen = Counter[str]()
    for each in samples:
        names = {frame.name for frame in each.stack}
        seen["in_python" if "in_python" in names else "other"] += each.weight_s  # type: ignore[assignment]
    share = seen["in_python"] / seen.total()
    assert 0.6 < share / (took["in_python"] / took.total()) < 1.4, "by default, nearly all of it would be missed"
    lines = {frame.line for each in samples for frame in each.stack if frame.name == "in_python"}
    first = in_python.__code__.co_firstlineno
    assert lines <= set(range(first + 2, first + 6)), "never the line of the def"


def test_a_stack_as_it_is() -> None:
    names = [name for name, _, _ in stack_here(0)]
    assert names[-1] == "test_a_stack_as_it_is"
