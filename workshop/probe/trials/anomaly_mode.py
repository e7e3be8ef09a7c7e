"""Without anomaly mode, where it is on."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import Extent, Moment, TriedCause
from workshop.probe.trials.copies import copied_model, forward_and_backward
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
