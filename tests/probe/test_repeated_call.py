"""A model that is called twice in a step for the same result."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.observations import Trial
from workshop.probe.trials.call_use import CallUse
from workshop.probe.trials.trial_race import Pass, Raced, race

STEPS = 8

Call = Callable[[torch.Tensor], torch.Tensor]
Loop = Callable[[Call, nn.Module, torch.Tensor], object]


@contextmanager
def hears_of_backward_passes(watch: CallUse) -> Iterator[None]:
    """Have a watcher told of all of them, as the hooks do."""
    original = torch.autograd.graph._engine_run_backward

    def run(tensors: Any, *args: Any, **options: Any) -> Any:
        watch.on_backward(tensors)
        try:
            return original(tensors, *args, **options)
        finally:
            watch.after_backward()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.autograd, "_engine_run_backward", run)
        yield


def tried(model: nn.Module, loop: Loop, path: Path) -> list[Trial]:
    """Run a loop's step some times, with a call of the model that is watched."""
    watch = CallUse(EventFile(str(path)))

    def call(inputs: torch.Tensor) -> torch.Tensor:
        watch.before_forward(model, (inputs,), {})
        output = model(inputs)
        watch.after_forward(model, output)
        return output

    with hears_of_backward_passes(watch):
        for _ in range(STEPS):
            loop(call, model, torch.randn(16, 32))
            watch.on_step_end(1)
    watch.end()
    return [
        each for each in read_observations(path, [os.getpid()]).raced if each.name == "repeated-call" and each.applies
    ]


def for_a_metric(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    call(inputs).square().mean().backward()
    with torch.no_grad():
        call(inputs).argmax()


def for_a_metric_before(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    with torch.no_grad():
        call(inputs).argmax()
    call(inputs).square().mean().backward()


def for_two_losses(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    (call(inputs).square().mean() + call(inputs.clone()).abs().mean()).backward()


def for_gradients_of_inputs(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    inputs.requires_grad_()
    slopes = [torch.autograd.grad(call(inputs).sum(), inputs, create_graph=True)[0] for _ in range(2)]
    (slopes[0] * slopes[1]).mean().backward()


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


def with_gradients_of_its_inputs_and_without(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    """As a GAN calls what judges its fakes."""
    fakes = inputs.requires_grad_() * 2
    (call(fakes.detach()).mean() + call(fakes).mean()).backward()


def with_a_backward_pass_for_each(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    losses = [call(inputs).square().mean(), call(inputs).abs().mean()]
    for each in losses:
        each.backward()


def now_and_then(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    """As where a game returns to a place."""
    for _ in range(8):
        call(torch.randint(8, (1, 1)).expand(16, 32).float())


def in_inference_mode(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
    with torch.inference_mode():
        call(inputs + 1)
        call(torch.sparse_coo_tensor(size=(16, 32)))


def layers(*others: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 256), *others, nn.Linear(256, 8))


@pytest.mark.parametrize("loop", [for_a_metric, for_a_metric_before, for_two_losses, for_gradients_of_inputs])
def test_a_call_less_is_tried(loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[int]()

    def counted(*passes: Pass) -> Raced:
        for each in passes:
            called = list[type[nn.Module]]()
            with nn.modules.module.register_module_forward_pre_hook(
                lambda module, _, called=called: called.append(type(module))
            ):
                each()
            calls.append(called.count(nn.Sequential))
        return race(*passes)

    monkeypatch.setattr("workshop.probe.trials.watcher.race", counted)
    (trial,) = tried(layers(), loop, tmp_path)
    assert (trial.name, trial.about, trial.error) == ("repeated-call", "model", "")
    assert trial.times == 1.0
    assert calls == [2, 1], "of the model, as it is and with a call less"
    assert min(trial.as_it_is_s, trial.changed_s) > 0
    assert trial.stack[-1][1] == __file__
    assert trial.setting == ""


def test_statistics_that_are_counted_once_less_are_told(tmp_path: Path) -> None:
    (trial,) = tried(layers(nn.BatchNorm1d(256)), for_two_losses, tmp_path)
    assert "running statistics" in trial.setting


@pytest.mark.parametrize(
    "loop",
    [
        with_other_inputs,
        after_a_change_of_the_model,
        with_inputs_changed_in_place,
        with_gradients_of_its_inputs_and_without,
        with_a_backward_pass_for_each,
        now_and_then,
    ],
)
def test_what_only_looks_like_a_repetition(loop: Loop, tmp_path: Path) -> None:
    torch.manual_seed(1)
    assert tried(layers(), loop, tmp_path) == []


def test_what_cannot_be_looked_at_is_left_alone(tmp_path: Path) -> None:
    assert tried(nn.Linear(32, 4), in_inference_mode, tmp_path) == []


@pytest.mark.parametrize("loop", [for_a_metric, for_two_losses])
def test_two_draws_are_no_repetition(loop: Loop, tmp_path: Path) -> None:
    assert tried(layers(nn.Dropout()), loop, tmp_path) == []


def test_a_loss_function_is_no_model(tmp_path: Path) -> None:
    assert tried(nn.Softmax(1), lambda call, _, inputs: (call(inputs), call(inputs)), tmp_path) == []


def test_what_a_backward_pass_computes_again_is_no_repetition(tmp_path: Path) -> None:
    """As where it calls others inside, like checkpoints that are reentrant."""

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, inputs: torch.Tensor, call: Call) -> torch.Tensor:
            context.call, context.inputs = call, inputs.detach()
            return call(inputs)

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            for _ in range(2):
                inputs = context.inputs.clone().requires_grad_()
                with torch.enable_grad():
                    context.call(inputs).backward(gradient)
            return inputs.grad, None

    def loop(call: Call, _: nn.Module, inputs: torch.Tensor) -> None:
        Again.apply(inputs.requires_grad_(), call).sum().backward()

    assert tried(layers(), loop, tmp_path) == []
