"""Numbers of fewer bits: TF32 for matrix products, autocast to bfloat16, and single precision in place of double."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import CausePlace, Extent, Moment, TriedCause
from workshop.probe.internals import tree_map
from workshop.probe.phases import COMPUTING
from workshop.probe.trials.copies import copied_model, forward_and_backward, with_setting
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model

ASKS_FOR_DOUBLE = {"double": "", "set_default_dtype": "torch.float64", "to": "torch.float64"}
"""The functions that ask for double precision, each with the argument that does."""


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


@of_model(
    TriedCause(
        "float64",
        "The model computes in double precision: if 7 digits are enough, use float32, from the data on.",
        phases=COMPUTING,
        moment=Moment.BEFORE,
        is_worth_it=lambda look: look.circumstances.double,
        extent=Extent.ALL,
        is_asked_by=lambda made, _: ASKS_FOR_DOUBLE.get(made.function) in (made.values or ("",)),
    )
)
def single_precision(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """Parameters and inputs in float32."""
    double, single = copied_model(model), copied_model(model).float()
    yield lambda: forward_and_backward(double, inputs, options)
    few_bits, few_bits_options = tree_map(_as_single, (inputs, options))
    yield lambda: forward_and_backward(single, few_bits, few_bits_options)


def _as_single(leaf: Any) -> Any:
    return leaf.float() if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64 else leaf
