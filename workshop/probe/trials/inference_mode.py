"""inference_mode, where a validation calls a model under no_grad: tensors then carry nothing for gradients."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.internals import tree_leaves
from workshop.probe.trials.copies import copied_model
from workshop.probe.trials.trial_race import Pass


def inference_mode(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """A forward pass under torch.no_grad(), and under torch.inference_mode()."""
    model = copied_model(model)

    def call() -> torch.Tensor:
        outputs = [each for each in tree_leaves(model(*inputs, **options)) if isinstance(each, torch.Tensor)]
        return torch.cat([each.flatten().float() for each in outputs])

    def without_gradients() -> torch.Tensor:
        with torch.no_grad():
            return call()

    def inferring() -> torch.Tensor:
        with torch.inference_mode():
            return call()

    yield without_gradients
    yield inferring
