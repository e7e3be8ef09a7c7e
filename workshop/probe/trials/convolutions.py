"""How convolutions of pictures are computed: on channels that come last, and as cuDNN finds them to be fastest."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import CausePlace, TriedCause
from workshop.probe.internals import tree_map
from workshop.probe.trials.copies import copied_model, forward_and_backward, with_setting
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model


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
    convolutions = _convolutions(model)
    if not convolutions or all(each.weight.is_contiguous(memory_format=torch.channels_last) for each in convolutions):
        raise NothingToTryError("it has no convolution of pictures whose channels come first")
    as_it_is = copied_model(model)
    yield lambda: forward_and_backward(as_it_is, inputs, options)
    changed = copied_model(model).to(memory_format=torch.channels_last)
    moved, moved_options = tree_map(_moved, (inputs, options))
    yield lambda: forward_and_backward(changed, moved, moved_options)


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
    if torch.backends.cudnn.benchmark or not _convolutions(model) or not next(model.parameters()).is_cuda:
        raise NothingToTryError("it has no convolutions on a GPU, or cuDNN searches already")

    def search(enabled: bool) -> None:
        torch.backends.cudnn.benchmark = enabled

    yield from with_setting(model, inputs, options, search, False, True)


def _convolutions(model: nn.Module) -> list[nn.Conv2d | nn.ConvTranspose2d]:
    return [each for each in model.modules() if isinstance(each, nn.Conv2d | nn.ConvTranspose2d)]


def _moved(leaf: Any) -> Any:
    is_picture = isinstance(leaf, torch.Tensor) and leaf.ndim == 4
    return leaf.contiguous(memory_format=torch.channels_last) if is_picture else leaf
