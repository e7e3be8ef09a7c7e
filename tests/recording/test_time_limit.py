"""The seconds that a run gets count from its first step, in whichever process."""

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from workshop.probe.first_step import STEP, TORCH, note_first_step
from workshop.probe.internals import loader_iterators
from workshop.recording import time_limit
from workshop.recording.time_limit import TimeLimit


def wrappers() -> tuple[object, ...]:
    return torch.autograd.backward, torch.autograd.grad, loader_iterators()[0].__next__


@pytest.mark.parametrize("how", ["backward", "grad", "batches"])
def test_the_first_step_is_noted_and_then_no_wrapper_is_left(how: str, tmp_path: Path) -> None:
    before, step = wrappers(), tmp_path / STEP
    note_first_step(torch, str(tmp_path))
    assert (tmp_path / TORCH).exists()
    assert not {*before} & {*wrappers()}
    if how == "batches":
        assert [step.exists() for _ in DataLoader(range(4))] == [False, True, True, True]
    else:
        model = torch.nn.Linear(2, 1)
        loss = model(torch.ones(1, 2)).sum()
        assert not step.exists()
        loss.backward() if how == "backward" else torch.autograd.grad(loss, [*model.parameters()])
    assert step.exists()
    assert wrappers() == before


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes as the test says."""
    time = [1000.0]
    monkeypatch.setattr(time_limit.time, "monotonic", lambda: time[0])
    return time


def test_from_when_on_the_seconds_count(now: list[float], tmp_path: Path) -> None:
    said: list[str] = []

    def over_after(seconds: float, *, torch: bool, step: bool) -> bool:
        now[0] += seconds
        for name in [TORCH] * torch + [STEP] * step:
            (tmp_path / name).touch()
        return run.is_over()

    run = TimeLimit(5, tmp_path, said.append)
    assert not over_after(19, torch=False, step=False)
    assert over_after(2, torch=False, step=False), "it has no torch: its time was over long ago"
    assert said == ["\ntorch was not loaded within 20 s; the time counts from the start."]

    run = TimeLimit(5, tmp_path, said.append)
    assert not over_after(19, torch=True, step=False)
    assert not over_after(59, torch=True, step=False)
    assert not over_after(2, torch=True, step=False)
    assert over_after(5, torch=True, step=False)
    assert said[1:] == ["\nNo training step was seen within 60 s; the 5 s begin now."]

    run = TimeLimit(5, tmp_path, said.append)
    assert not over_after(19, torch=True, step=True)
    assert not over_after(4, torch=True, step=True)
    assert over_after(1, torch=True, step=True)
    assert len(said) == 2

    run = TimeLimit(None, tmp_path, said.append)
    assert not over_after(1e6, torch=True, step=True)
