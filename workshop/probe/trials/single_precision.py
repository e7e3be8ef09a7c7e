"""Single precision, where the model computes in double."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.internals import tree_map
from workshop.probe.trials.copies import copied_model, forward_and_backward
from workshop.probe.trials.trial_race import Pass


def single_precision(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """Parameters and inputs in float32."""
    double, single = copied_model(model), copied_model(model).float()
    yield lambda: forward_and_backward(double, inputs, options)
    few_bits, few_bits_options = tree_map(_as_single, (inputs, options))
    yield lambda: forward_and_backward(single, few_bits, few_bits_options)


def _as_single(leaf: Any) -> Any:
    return leaf.float() if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64 else leaf
