"""inference_mode, where a validation calls a model under no_grad: tensors then carry nothing for gradients."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import CausePlace, Results, TriedCause
from workshop.probe.internals import tree_leaves
from workshop.probe.phases import Phase
from workshop.probe.trials.copies import copied_model
from workshop.probe.trials.trial_race import Pass
from workshop.probe.trials.watcher import of_model


@of_model(
    TriedCause(
        "inference-mode",
        "The validation calls the model ({about}) under torch.no_grad(): torch.inference_mode() is faster for what no "
        "backward pass ever sees.",
        CausePlace.OPTION,
        phases=(Phase.VALIDATION,),
        seconds=lambda _, look: look.validations_s,  # of which one call is tried, as soon as it comes
        results=Results.SAME_OPERATIONS,
    ),
    in_validation=True,
)
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
