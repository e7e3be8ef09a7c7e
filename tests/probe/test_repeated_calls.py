"""A model that is called twice in a step for the same result."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.observations import Trial
from workshop.probe.watchers.repeated_calls import RepeatedCalls

STEPS = 6

Call = Callable[[torch.Tensor], torch.Tensor]
Loop = Callable[[Call, nn.Module, torch.Tensor], object]


def tried(model: nn.Module, loop: Loop, path: Path) -> list[Trial]:
    """Run a loop's step some times, with a call of the model that is watched."""
    watch = RepeatedCalls(EventFile(str(path)))

    def call(inputs: torch.Tensor) -> torch.Tensor:
        watch.before_forward(model, (inputs,), {})
        output = model(inputs)
        watch.after_forward(model, output)
        return output

    for _ in range(STEPS):
        loop(call, model, torch.randn(16, 32))
        watch.on_step_end(1)
    watch.end()
    return [each for each in read_observations(path, [os.getpid()]).raced if each.applies]


def for_a_metric(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    call(inputs).square().mean().backward()
    with torch.no_grad():
        call(inputs).argmax()


def for_two_losses(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    (call(inputs).square().mean() + call(inputs.clone()).abs().mean()).backward()


def with_other_inputs(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    (call(inputs) + call(inputs + 1)).square().mean().backward()


def after_a_change_of_the_model(call: Call, model: nn.Module, inputs: torch.Tensor) -> None:
    call(inputs).square().mean().backward()
    for each in model.parameters():
        each.data = each.data + 0.1  # which no version tells of
    call(inputs).square().mean().backward()


def with_inputs_changed_in_place(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    call(inputs).square().mean().backward()
    call(inputs.add_(1)).square().mean().backward()


def layers(*others: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 256), *others, nn.Linear(256, 8))


@pytest.mark.parametrize("loop", [for_a_metric, for_two_losses])
def test_a_call_less_is_tried(loop: Loop, tmp_path: Path) -> None:
    (trial,) = tried(layers(), loop, tmp_path)
    assert (trial.name, trial.about, trial.error) == ("repeated-call", "model", "")
    assert trial.times == 1.0
    assert 0 < trial.changed_s < trial.as_it_is_s
    assert trial.stack[-1][1] == __file__


@pytest.mark.parametrize("loop", [with_other_inputs, after_a_change_of_the_model, with_inputs_changed_in_place])
def test_other_inputs_or_another_model_are_no_repetition(loop: Loop, tmp_path: Path) -> None:
    assert tried(layers(), loop, tmp_path) == []


@pytest.mark.parametrize("loop", [for_a_metric, for_two_losses])
def test_two_draws_are_no_repetition(loop: Loop, tmp_path: Path) -> None:
    assert tried(layers(nn.Dropout()), loop, tmp_path) == []


def test_a_loss_function_is_no_model(tmp_path: Path) -> None:
    assert tried(nn.Softmax(1), lambda call, _, inputs: (call(inputs), call(inputs)), tmp_path) == []


def test_what_a_backward_pass_computes_again_is_no_repetition(tmp_path: Path) -> None:
    watch, model = RepeatedCalls(EventFile(str(tmp_path))), layers()

    def calls() -> Iterator[None]:
        inputs = torch.randn(16, 32)
        for _ in range(2):
            watch.before_forward(model, (inputs,), {})
            watch.after_forward(model, model(inputs))
            yield

    for _ in range(STEPS):
        of_step = calls()
        next(of_step)
        watch.on_backward(None)
        next(of_step)
        watch.after_backward()
        watch.on_step_end(1)
    watch.end()
    assert read_observations(tmp_path, [os.getpid()]).raced == []
