"""The line that nsys would run with, and the ranges that it would show."""

import shutil
import sys
from pathlib import Path

import pytest
from conftest import Run

from workshop.probe.settings import NVTX_VARIABLE
from workshop.processes.script import probe_environment

TRAINING = """
import torch
nvtx, ranges = torch.cuda.nvtx, []
push, pop = nvtx.range_push, nvtx.range_pop
nvtx.range_push = lambda name: (ranges.append(name), push(name))
nvtx.range_pop = lambda: (ranges.append("end"), pop())
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.ones(4, 8), batch_size=4):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
print(*ranges, sep=", ")
"""
PHASES = ["data wait", "data wait", "optimizer", "forward", "backward", "optimizer", "data wait"]


@pytest.mark.skipif(shutil.which("nsys") is not None, reason="nsys is here")
def test_without_nsys_the_command_is_printed(workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRAINING)
    done = workshop("record", "nsys", "--run-as", "me", "--", "mine.py", "5")
    assert done.returncode == 2
    assert done.stderr.startswith("there is no nsys here")
    assert done.stdout.startswith("nsys profile --trace=cuda,nvtx")
    assert {"--cuda-memory-usage=true", "--gpu-metrics-devices=all"} <= set(done.stdout.split())
    assert done.stdout.split()[-3:] == [sys.executable, "mine.py", "5"]


def test_phases_are_marked_and_the_training_is_not_disturbed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRAINING)
    done = run("mine.py", environment=probe_environment() | {NVTX_VARIABLE: "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == ", ".join(f"{phase}, end" for phase in PHASES) + "\n"
