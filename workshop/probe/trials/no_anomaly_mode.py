"""Without anomaly mode, where it is on."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.trials.copies import copied_model, forward_and_backward
from workshop.probe.trials.trial_race import Pass


def no_anomaly_mode(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """The mode is switched off."""
    model = copied_model(model)

    def in_mode(mode: bool) -> None:
        with torch.autograd.set_detect_anomaly(mode):
            forward_and_backward(model, inputs, options)

    yield lambda: in_mode(True)
    yield lambda: in_mode(False)
