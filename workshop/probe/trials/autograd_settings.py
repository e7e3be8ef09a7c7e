"""How autograd works: in anomaly mode, in inference mode, and with gradients that are filled with zeros."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import CausePlace, Extent, Moment, Results, TriedCause
from workshop.probe.internals import tree_leaves
from workshop.probe.observations import SettingMade
from workshop.probe.phases import COMPUTING, Phase
from workshop.probe.trials.copies import copied_model, forward_and_backward, sum_of_trained
from workshop.probe.trials.trial_race import Pass
from workshop.probe.trials.watcher import of_model


@of_model(
    TriedCause(
        "anomaly-mode",
        "Anomaly mode checks every operation: switch it on only to look for a NaN.",
        moment=Moment.BEFORE,
        is_worth_it=lambda look: look.circumstances.anomaly_mode,
        extent=Extent.ALL,
        is_asked_by=lambda made, _: made.function == "detect_anomaly" and made.values[:1] in ((), ("True",)),
    )
)
def no_anomaly_mode(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """The mode is switched off."""
    model = copied_model(model)

    def in_mode(mode: bool) -> None:
        with torch.autograd.set_detect_anomaly(mode):
            forward_and_backward(model, inputs, options)

    yield lambda: in_mode(True)
    yield lambda: in_mode(False)


@of_model(
    TriedCause(
        "inference-mode",
        "The validation calls the model ({about}) under torch.no_grad(): torch.inference_mode() is faster for what no "
        "backward pass ever sees.",
        CausePlace.OPTION,
        phases=(Phase.VALIDATION,),
        seconds=lambda _, look: look.validations_s,  # of which one call is tried, as soon as it comes
        results=Results.SAME_OPERATIONS,
    ),
    in_validation=True,
)
def inference_mode(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """A forward pass under torch.no_grad(), and one whose tensors carry nothing for gradients."""
    model = copied_model(model)

    def call(mode: Any) -> torch.Tensor:
        with mode():
            outputs = [each for each in tree_leaves(model(*inputs, **options)) if isinstance(each, torch.Tensor)]
            return torch.cat([each.flatten().float() for each in outputs])

    yield lambda: call(torch.no_grad)
    yield lambda: call(torch.inference_mode)


def _fills(made: SettingMade, _: str = "") -> bool:
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
