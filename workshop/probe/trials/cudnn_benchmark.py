"""cuDNN's search for the fastest convolutions."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import CausePlace, TriedCause
from workshop.probe.trials.copies import convolutions_of, with_setting
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import ModelTrial


class CudnnBenchmark(ModelTrial):
    """Computes with torch.backends.cudnn.benchmark."""

    causes = (
        TriedCause(
            "cudnn-benchmark",
            "Convolutions are faster with torch.backends.cudnn.benchmark = True, if their sizes stay.",
            CausePlace.OPTION,
            is_worth_it=lambda look: look.circumstances.device == "cuda",
        ),
    )

    @staticmethod
    def passes(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
        """Yield passes without the search, and with it."""
        convolves = bool(convolutions_of(model))
        if torch.backends.cudnn.benchmark or not convolves or not next(model.parameters()).is_cuda:
            raise NothingToTryError("it has no convolutions on a GPU, or cuDNN searches already")

        def search(enabled: bool) -> None:
            torch.backends.cudnn.benchmark = enabled

        yield from with_setting(model, inputs, options, search, False, True)
