"""Channels last, where a model has convolutions of pictures."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import CausePlace, TriedCause
from workshop.probe.internals import tree_map
from workshop.probe.trials.copies import copied_model, forward_and_backward
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model

CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)


@of_model(
    TriedCause(
        "channels-last",
        "The convolutions of the model ({about}) are faster on channels that come last: "
        "model.to(memory_format=torch.channels_last), and the same for the pictures.",
        CausePlace.OPTION,
    )
)
def channels_last(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """Parameters and inputs in torch.channels_last."""
    convolutions = [each for each in model.modules() if isinstance(each, CONVOLUTIONS)]
    if not convolutions or all(each.weight.is_contiguous(memory_format=torch.channels_last) for each in convolutions):
        raise NothingToTryError("it has no convolution of pictures whose channels come first")
    as_it_is = copied_model(model)
    yield lambda: forward_and_backward(as_it_is, inputs, options)
    changed = copied_model(model).to(memory_format=torch.channels_last)
    moved, moved_options = tree_map(_moved, (inputs, options))
    yield lambda: forward_and_backward(changed, moved, moved_options)


def _moved(leaf: Any) -> Any:
    is_picture = isinstance(leaf, torch.Tensor) and leaf.ndim == 4
    return leaf.contiguous(memory_format=torch.channels_last) if is_picture else leaf
