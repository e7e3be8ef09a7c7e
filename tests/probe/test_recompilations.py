"""What torch.compile makes again and again, and where it leaves what it has made."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.hooks import TrainingHooks
from workshop.probe.internals import forget_compiled
from workshop.probe.measured_training import StageWatchers
from workshop.probe.messages import AsItIs, KeepBatches, TryCauses
from workshop.probe.model_calls import ModelCalls
from workshop.probe.trials.garbage_collector import GarbagePauses
from workshop.probe.trials.kept_graphs import GraphLives
from workshop.probe.trials.padded_batches import PaddedInputs
from workshop.probe.trials.recompilations import Recompilations


@pytest.fixture(autouse=True)
def _nothing_is_compiled_yet() -> Iterator[None]:
    forget_compiled()
    torch._dynamo.utils.clear_compilation_metrics()
    torch._dynamo.utils.graph_break_reasons.clear()
    yield
    forget_compiled()


class Net(nn.Module):
    def __init__(self, counts: bool = False, branches: bool = False) -> None:
        super().__init__()
        self.layer, self.counts, self.branches, self.number = nn.Linear(4, 4), counts, branches, 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.counts:
            self.number += 1
        inner = self.layer(inputs)
        if self.branches and inner.sum() > 0:
            inner = -inner
        return inner + self.number


@pytest.mark.parametrize("is_compiled", [True, False])
def test_of_a_compiled_model_only_some_causes_are_watched(
    is_compiled: bool, hooks: TrainingHooks, tmp_path: Path
) -> None:
    models = ModelCalls(hooks)
    models.model = torch.compile(Net(), backend="eager") if is_compiled else Net()  # type: ignore[assignment]
    watchers = StageWatchers(EventFile(str(tmp_path)), hooks, models, lambda: 0)
    hooks.audience.listeners = (watchers,)
    watchers.on_stage(TryCauses(("padded-batches",)))
    begun = {type(each) for each in hooks.audience.listeners}
    assert begun >= {Recompilations, GarbagePauses}
    assert begun.isdisjoint({GraphLives, PaddedInputs}) if is_compiled else begun >= {GraphLives, PaddedInputs}
    watchers.on_stage(AsItIs())
    assert PaddedInputs not in {type(each) for each in hooks.audience.listeners}
    for each in hooks.audience.listeners:
        each.on_fault("")


FORWARD = Net.forward.__code__.co_firstlineno


def noticed(model: nn.Module, path: Path, steps: int) -> str:
    compiled, watcher = torch.compile(model, backend="eager"), Recompilations(EventFile(str(path)))
    compiled(torch.ones(2, 4))
    watcher.on_stage(AsItIs())
    for step in range(steps):
        compiled(torch.ones(3 + step % 2, 4))
        watcher.on_step_end(1)
    watcher.on_stage(KeepBatches())
    found = read_observations(path, [os.getpid()]).noticed
    return found["recompilations"].about if found else ""


def test_a_function_that_is_made_again_and_again_and_then_no_more(tmp_path: Path) -> None:
    says = noticed(Net(counts=True), tmp_path, steps=12)
    assert f"has made forward (line {FORWARD}) again 7 times" in says
    assert "(7 times in 12 measured steps), and gave up" in says
    assert says.endswith(f"self.number == 6 (line {FORWARD + 2})")


def test_a_line_that_cannot_be_compiled(tmp_path: Path) -> None:
    says = noticed(Net(branches=True), tmp_path, steps=3)
    assert says.startswith(f"leaves what it has made for line {FORWARD + 4} (")


def test_other_shapes_are_compiled_a_few_times_and_that_is_usual(tmp_path: Path) -> None:
    assert noticed(Net(), tmp_path, steps=6) == ""
