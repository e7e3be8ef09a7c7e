"""CUDA graphs that a script records in its measured steps are counted by line; what they do needs a CUDA device."""

import os
from pathlib import Path

import pytest
import torch

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.messages import AsItIs, KeepBatches
from workshop.probe.trials.graph_recordings import GraphRecordings


def train(watcher: GraphRecordings, steps: int) -> int:
    """Take some steps, each with a recording, and return their line."""
    for _ in range(steps):
        torch.cuda.graph.__enter__(None)  # type: ignore[arg-type]
        watcher.on_step_end(1)
    return train.__code__.co_firstlineno + 3


@pytest.mark.parametrize(("steps", "is_told"), [(3, False), (8, True)])
def test_recordings_in_measured_steps(
    steps: int, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    monkeypatch.setattr(torch.cuda.graph, "__enter__", lambda graph: begun.append(graph))
    original, watcher = torch.cuda.graph.__enter__, GraphRecordings(EventFile(str(tmp_path)))
    train(watcher, 5)  # before the steps that are measured
    watcher.on_stage(AsItIs())
    line = train(watcher, steps)
    watcher.on_stage(KeepBatches())
    train(watcher, 5)
    watcher.end()
    noticed = read_observations(tmp_path, [os.getpid()]).noticed
    says = f"{steps} times in {steps} measured steps, most of them in {Path(__file__).name}:{line}"
    assert (noticed["recorded-graphs"].about if noticed else "") == (says if is_told else "")
    assert len(begun) == 10 + steps
    assert torch.cuda.graph.__enter__ is original
