"""Gradients that are dropped, where they are filled with zeros: a backward pass then adds to nothing."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from workshop.probe.cause import CausePlace, Results, TriedCause
from workshop.probe.observations import SettingMade
from workshop.probe.phases import COMPUTING
from workshop.probe.trials.copies import copied_model, sum_of_trained
from workshop.probe.trials.trial_race import Pass
from workshop.probe.trials.watcher import of_model


def _fills(made: SettingMade, _: str = "") -> bool:
    """Return whether a call fills gradients with zeros."""
    return made.function == "zero_grad" and "False" in made.values


@of_model(
    TriedCause(
        "set-to-none",
        "Gradients are cleared by filling them with zeros, to which the next ones are added: leave out "
        "set_to_none=False. An optimizer then passes over parameters that get no gradient in a step.",
        CausePlace.OPTION,
        phases=COMPUTING,
        is_worth_it=lambda look: any(map(_fills, look.settings)),
        results=Results.SAME_OPERATIONS,
        is_asked_by=_fills,
    ),
    once_a_step=True,
)
def set_to_none(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """Forward, backward, and clearing the gradients: with zeros, and by setting them to None."""
    yield _clearing(copied_model(model), inputs, options, to_none=False)
    yield _clearing(copied_model(model), inputs, options, to_none=True)


def _clearing(model: nn.Module, inputs: Any, options: Any, to_none: bool) -> Pass:
    """A pass, which returns the gradients of the first parameter that has one."""

    def run() -> object:
        sum_of_trained(model(*inputs, **options)).backward()
        made = next((each.grad.clone() for each in model.parameters() if each.grad is not None), None)
        model.zero_grad(set_to_none=to_none)
        return made

    return run
