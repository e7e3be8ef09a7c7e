"""Single precision, where the model computes in double."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import Extent, Moment, TriedCause
from workshop.probe.internals import tree_map
from workshop.probe.phases import COMPUTING
from workshop.probe.trials.copies import copied_model, forward_and_backward
from workshop.probe.trials.trial_race import Pass
from workshop.probe.trials.watcher import of_model

ASKS = {"double": "", "set_default_dtype": "torch.float64", "to": "torch.float64"}
"""The functions that ask for double precision, each with the argument that does."""


@of_model(
    TriedCause(
        "float64",
        "The model computes in double precision: if 7 digits are enough, use float32, from the data on.",
        phases=COMPUTING,
        moment=Moment.BEFORE,
        is_worth_it=lambda look: look.circumstances.double,
        extent=Extent.ALL,
        is_asked_by=lambda made, _: ASKS.get(made.function) in (made.values or ("",)),
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
