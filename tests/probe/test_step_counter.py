"""What ends a step: an optimizer of torch, or else what the loop repeats."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from workshop.probe import step_counter
from workshop.probe.hooks import TrainingHooks
from workshop.probe.listener import Listener
from workshop.probe.messages import StepUnit


class Steps(Listener):
    """Counts the steps by what ended them."""

    def __init__(self, hooks: TrainingHooks) -> None:
        self.hooks = hooks
        self.ended: list[StepUnit | None] = []

    def on_step_end(self, steps: int) -> None:
        self.ended += [self.hooks.steps.unit] * steps


@pytest.fixture
def steps(hooks: TrainingHooks, monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Counted steps, without the time that the loop is given to do something else."""
    monkeypatch.setattr(step_counter, "PATIENCE_S", -1.0)
    counted = Steps(hooks)
    hooks.audience.listeners = (counted,)
    return counted


model = nn.Linear(4, 4)


def backward() -> torch.Tensor:
    model.zero_grad()
    loss = model(torch.randn(2, 4)).square().mean()
    loss.backward()
    return loss


def by_hand() -> None:
    backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad


def by_functional_gradients() -> None:
    parameters = dict(model.named_parameters())
    torch.func.grad(lambda weights: torch.func.functional_call(model, weights, (torch.randn(2, 4),)).square().mean())(
        parameters
    )


@pytest.mark.parametrize("step", [by_hand, by_functional_gradients])
def test_backward_passes_are_steps_without_an_optimizer(step: Callable[[], None], steps: Steps) -> None:
    for _ in range(12):
        step()
    assert steps.ended == [StepUnit.BACKWARD] * (12 - step_counter.MIN_PASSES + 1)


def test_an_optimizer_with_many_closures_repeats_them(steps: Steps) -> None:
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=10, tolerance_grad=0.0, tolerance_change=0.0)
    for _ in range(3):
        optimizer.step(backward)
    assert set(steps.ended) == {StepUnit.BACKWARD}
    assert len(steps.ended) > 3 * 5


def test_gradients_for_a_later_pass_are_no_step(steps: Steps) -> None:
    """As those of a network that solves a differential equation."""

    def closure() -> torch.Tensor:
        model.zero_grad()
        place = torch.randn(2, 4, requires_grad=True)
        slope = torch.autograd.grad(model(place).square().sum(), place, create_graph=True)[0]
        loss = torch.autograd.grad(slope.sum(), place, None, None, True)[0].square().mean()
        loss.backward()
        return loss

    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, tolerance_grad=0.0, tolerance_change=0.0)
    for _ in range(4):
        optimizer.step(closure)
    assert steps.ended == [StepUnit.OPTIMIZER] * 4


def test_a_closure_that_is_called_once_is_an_optimizer_step(steps: Steps) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.step(backward)
    assert steps.ended == [StepUnit.OPTIMIZER] * 4


def test_accumulated_gradients_are_one_step(monkeypatch: pytest.MonkeyPatch, steps: Steps) -> None:
    monkeypatch.setattr(step_counter, "PATIENCE_S", 1000.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        for _ in range(20):
            backward()
        optimizer.step()
    assert steps.ended == [StepUnit.OPTIMIZER] * 3


def test_what_comes_later_takes_the_place_of_what_was_counted(steps: Steps) -> None:
    with torch.no_grad():
        for batch in DataLoader(torch.randn(20, 4), 2):
            model(batch)
    assert set(steps.ended) == {StepUnit.BATCH}
    by_hand()
    assert steps.ended[-1] is StepUnit.BACKWARD
    torch.optim.SGD(model.parameters(), lr=0.01).step()
    assert steps.ended[-1] is StepUnit.OPTIMIZER
    before = len(steps.ended)
    list(DataLoader(torch.randn(20, 4), 2))
    by_hand()
    assert len(steps.ended) == before
