"""Autocast to bfloat16, where a model computes in single precision."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import CausePlace, TriedCause
from workshop.probe.trials.copies import copied_model, forward_and_backward
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model


@of_model(
    TriedCause(
        "bfloat16",
        "The model ({about}) is faster in bfloat16: call it under torch.autocast, and see how well it learns.",
        CausePlace.OPTION,
    )
)
def bfloat16(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """The forward pass under torch.autocast."""
    device = next(model.parameters()).device.type
    if torch.is_autocast_enabled(device) or any(each.dtype != torch.float32 for each in model.parameters()):
        raise NothingToTryError("it does not compute in single precision")
    model = copied_model(model)

    def cast(enabled: bool) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled):
            return forward_and_backward(model, inputs, options)

    yield lambda: cast(False)
    yield lambda: cast(True)
