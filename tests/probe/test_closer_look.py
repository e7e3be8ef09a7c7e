"""What is looked at in a few steps: backward passes line by line, and what is tried on a copy of the model."""

import os
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from workshop.diagnosis.samples import Observations, read_observations
from workshop.probe.backward_lines import MANY_TIMES, BackwardLines
from workshop.probe.event_file import EventFile
from workshop.probe.trials import TRIALS, attempt


class TwoLines(nn.Module):
    """A line whose backward pass is long, and a loop of small ones."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(600, 600), nn.Linear(600, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        wide = self.wide(inputs)
        return sum(self.narrow(row) for row in wide)


WIDE = TwoLines.forward.__code__.co_firstlineno + 1


def passed(folder: Path, times: int = 1) -> Observations:
    """What is noted of some backward passes."""
    lines, model = BackwardLines(EventFile(str(folder))), TwoLines()
    for _ in range(times):
        lines.begin()
        loss = model(torch.ones(64, 600)).sum()
        lines.on_backward(loss)
        loss.backward()
        lines.after_backward()
    return read_observations(folder, [os.getpid()])


def test_a_backward_pass_is_divided_among_lines(tmp_path: Path) -> None:
    found = passed(tmp_path, times=2)
    assert len(found.backward_passes) == 2
    for each in found.backward_passes:
        of_lines = [(seconds, number, [line for *_, line in stack]) for seconds, number, stack in each.parts if stack]
        assert sum(seconds for seconds, _, lines in of_lines if WIDE in lines) > 0
        assert sum(number for _, number, _ in of_lines) >= each.operations - 5, "parameters have no line"
        assert each.operations > 64
        assert (__file__, WIDE + 1, 64) in [tuple(loop) for loop in each.loops], "the loop, and how often it called"
        assert all(times >= MANY_TIMES for _, _, times in each.loops)
    assert not torch.is_anomaly_enabled()
    assert sys.getprofile() is None


def test_a_pass_of_a_script_in_anomaly_mode_is_left_alone(tmp_path: Path) -> None:
    with torch.autograd.set_detect_anomaly(True):
        assert passed(tmp_path).backward_passes == []
        assert torch.is_anomaly_enabled()


class RowByRow(nn.Module):
    """What is random, what has a state, and a layer that is called for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(32, 64), nn.Dropout(), nn.BatchNorm1d(64)), nn.Linear(64, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.head(row) for row in self.body(inputs).split(1)])


@pytest.mark.parametrize("name", TRIALS)
def test_a_trial_changes_nothing(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = RowByRow().double()
    inputs = torch.randn(16, 32, dtype=torch.float64)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    random_state, threads = torch.get_rng_state(), torch.get_num_threads()
    attempt(name, model, (inputs,), {}, EventFile(str(tmp_path)))
    trial = read_observations(tmp_path, [os.getpid()]).trials[name]
    assert trial.error == ""
    assert trial.as_it_is_s > 0
    assert trial.changed_s > 0
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert (torch.get_num_threads(), torch.is_anomaly_enabled()) == (threads, False)


def test_a_model_that_cannot_be_copied_is_not_tried(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    model.lock = sys  # type: ignore[assignment]  # a module cannot be copied
    attempt("float64", model, (torch.ones(1, 2),), {}, EventFile(str(tmp_path)))
    assert read_observations(tmp_path, [os.getpid()]).trials["float64"].error.startswith("TypeError: ")


def test_a_layer_in_a_loop_is_called_once_for_all(tmp_path: Path) -> None:
    attempt("once-for-all", RowByRow(), (torch.randn(64, 32),), {}, EventFile(str(tmp_path)))
    attempt("tiny-operators", RowByRow(), (), {}, EventFile(str(tmp_path)))
    trial = read_observations(tmp_path, [os.getpid()]).trials["once-for-all"]
    assert trial.changed_s < trial.as_it_is_s / 4


@pytest.mark.parametrize("model", [nn.Linear(32, 4), nn.Sequential(*(nn.Linear(32, 32) for _ in range(20)))])
def test_layers_that_are_called_once_are_in_no_loop(model: nn.Module, tmp_path: Path) -> None:
    attempt("once-for-all", model, (torch.randn(64, 32),), {}, EventFile(str(tmp_path)))
    assert "calls no module" in read_observations(tmp_path, [os.getpid()]).trials["once-for-all"].error


@pytest.mark.parametrize(
    ("batch_first", "hour", "series"), [(True, (3, 1, 4), (3, 20, 4)), (False, (1, 3, 4), (20, 3, 4))]
)
def test_a_recurrent_layer_gets_the_whole_series(
    batch_first: bool, hour: tuple[int, ...], series: tuple[int, ...]
) -> None:
    class Hourly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(4, 8, batch_first=batch_first)

        def forward(self, first: torch.Tensor) -> torch.Tensor:
            output, state = self.layer(first)
            for _ in range(19):
                output, state = self.layer(first, state)
            return output

    called: list[tuple[int, ...]] = []
    passes = TRIALS["once-for-all"](Hourly(), (torch.randn(hour),), {})
    passes_of = [next(passes), next(passes)]
    with nn.modules.module.register_module_forward_pre_hook(lambda _, given: called.append(tuple(given[0].shape))):
        for each in passes_of:
            each()
    assert called == [hour] * 20 + [series]
