"""TF32 for matrix products on a GPU."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import CausePlace, TriedCause
from workshop.probe.trials.copies import with_setting
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model


@of_model(
    TriedCause(
        "matmul-precision",
        'Matrix products are faster in TF32: torch.set_float32_matmul_precision("high").',
        CausePlace.OPTION,
        is_worth_it=lambda look: look.circumstances.device == "cuda",
    )
)
def matmul_precision(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """Matrix products of float32 at the precision "high"."""
    before = torch.get_float32_matmul_precision()
    if before != "highest" or not next(model.parameters()).is_cuda:
        raise NothingToTryError("its matrix products are no float32 ones at the highest precision, on a GPU")
    yield from with_setting(model, inputs, options, torch.set_float32_matmul_precision, before, "high")
