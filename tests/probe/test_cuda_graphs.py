"""A model as a CUDA graph: when that is tried, what is left alone, and, on a CUDA device, what a replay computes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from workshop.diagnosis.samples import read_observations
from workshop.probe.cause import FirstLook
from workshop.probe.event_file import EventFile
from workshop.probe.messages import Circumstances
from workshop.probe.observations import Trial
from workshop.probe.trials import watchers_for
from workshop.probe.trials.cuda_graphs import is_launch_bound
from workshop.probe.trials.watcher import ModelTrial


@pytest.mark.parametrize(
    ("device", "headroom", "is_tried"), [("cuda", 3.0, True), ("cuda", 1.02, False), ("cpu", 3.0, False)]
)
def test_it_is_tried_where_a_gpu_waits_for_launches(device: str, headroom: float, is_tried: bool) -> None:
    assert is_launch_bound(FirstLook(Circumstances(device), launch_headroom=headroom)) is is_tried
    assert is_launch_bound(FirstLook(Circumstances(device))) is (device == "cuda"), "where no headroom is known"


class Net(nn.Module):
    def __init__(self, waits: bool = False) -> None:
        super().__init__()
        self.layers, self.waits = nn.ModuleList(nn.Linear(8, 8) for _ in range(20)), waits

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return -x if self.waits and x.sum().item() > 1e9 else x


def tried(model: nn.Module, inputs: torch.Tensor, folder: Path) -> Trial:
    (watcher,) = watchers_for(["cuda-graphs"], EventFile(str(folder)))
    assert isinstance(watcher, ModelTrial)
    watcher.attempt(model, (inputs,), {})
    return read_observations(folder, [os.getpid()]).trials["cuda-graphs"]


def test_a_model_on_a_cpu_is_left_alone(tmp_path: Path) -> None:
    found = tried(Net(), torch.ones(2, 8), tmp_path)
    assert not found.applies
    assert found.error == "NothingToTryError: not all of it is on a GPU"


@pytest.fixture
def _nothing_is_recorded_yet() -> Iterator[None]:
    torch.cuda.graph.default_capture_stream = None
    yield
    torch.cuda.graph.default_capture_stream = None


@pytest.mark.cuda
@pytest.mark.usefixtures("_nothing_is_recorded_yet")
def test_a_replay_computes_the_same(tmp_path: Path) -> None:
    model, before = Net().cuda(), torch.cuda.current_stream()
    found = tried(model, torch.ones(2, 8, device="cuda"), tmp_path)
    assert (found.error, found.applies) == ("", True)
    assert found.difference is not None
    assert found.difference < 1e-5
    assert torch.cuda.current_stream() == before
    assert all(each.grad is None for each in model.parameters())


@pytest.mark.cuda
@pytest.mark.usefixtures("_nothing_is_recorded_yet")
def test_a_model_that_waits_is_not_recorded(tmp_path: Path) -> None:
    model, before = Net(waits=True).cuda(), torch.cuda.current_stream()
    found = tried(model, torch.ones(2, 8, device="cuda"), tmp_path)
    assert found.error.startswith("RuntimeError: a pass waits for the GPU")
    assert torch.cuda.current_stream() == before
    assert model(torch.ones(2, 8, device="cuda")).isfinite().all(), "the device is as it was"
