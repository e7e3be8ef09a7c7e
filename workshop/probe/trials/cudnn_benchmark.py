"""cuDNN's search for the fastest convolutions."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import CausePlace, TriedCause
from workshop.probe.trials.channels_last import CONVOLUTIONS
from workshop.probe.trials.copies import with_setting
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model


@of_model(
    TriedCause(
        "cudnn-benchmark",
        "Convolutions are faster with torch.backends.cudnn.benchmark = True, if their sizes stay.",
        CausePlace.OPTION,
        is_worth_it=lambda look: look.circumstances.device == "cuda",
    )
)
def cudnn_benchmark(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """Convolutions with torch.backends.cudnn.benchmark."""
    convolves = any(isinstance(each, CONVOLUTIONS) for each in model.modules())
    if torch.backends.cudnn.benchmark or not convolves or not next(model.parameters()).is_cuda:
        raise NothingToTryError("it has no convolutions on a GPU, or cuDNN searches already")

    def search(enabled: bool) -> None:
        torch.backends.cudnn.benchmark = enabled

    yield from with_setting(model, inputs, options, search, False, True)
