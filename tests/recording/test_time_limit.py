"""The seconds that a run gets count from its first step, in whichever process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workshop.probe.first_step import STEP, TORCH
from workshop.processes.script import probe_environment
from workshop.recording import time_limit
from workshop.recording.time_limit import TimeLimit

STEPS = """
import sys
from pathlib import Path
import torch
from torch.utils.data import DataLoader, dataloader
import torch.multiprocessing as mp

step, torch_is_seen = Path(sys.argv[1], "first-step-is-over"), Path(sys.argv[1], "torch-is-loaded").exists()
wrapped = torch.autograd.backward, dataloader._BaseDataLoaderIter.__next__

def train(rank=0):
    model = torch.nn.Linear(2, 1)
    assert not step.exists()
    model(torch.ones(1, 2)).sum().backward()

if __name__ == "__main__":
    if sys.argv[2] == "train":
        train()
    elif sys.argv[2] == "spawn":
        mp.spawn(train, nprocs=1)
    elif sys.argv[2] == "batches":
        seen = [step.exists() for _ in DataLoader(range(4))]
        assert seen == [False, True, True, True], seen
    unwrapped = torch.autograd.backward, dataloader._BaseDataLoaderIter.__next__
    print(torch_is_seen, step.exists(), [a is b.__wrapped__ for a, b in zip(unwrapped, wrapped)])
"""


@pytest.mark.parametrize(
    ("how", "seen", "gone"),
    [
        ("train", True, True),
        pytest.param("batches", True, True, marks=pytest.mark.slow),
        pytest.param("nothing", False, False, marks=pytest.mark.slow),
        pytest.param("spawn", True, False, marks=pytest.mark.slow),
    ],
)
def test_the_first_step_is_noted_and_then_no_wrapper_is_left(how: str, seen: bool, gone: bool, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    environment = {**os.environ, **probe_environment(), **TimeLimit(1, tmp_path, print).environment}
    done = subprocess.run(
        [sys.executable, "steps.py", tmp_path, how], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout == f"True {seen} {[gone, gone]}\n", done.stderr


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
