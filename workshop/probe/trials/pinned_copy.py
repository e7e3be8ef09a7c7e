"""Copies to a GPU from pinned memory, where the memory is not pinned."""

from collections.abc import Iterator

import torch

from workshop.probe.trials.trial_race import NothingToTryError, Pass


def pinned_copy(tensor: torch.Tensor, device: torch.device, has_workers: bool) -> Iterator[Pass]:
    """The copy of a tensor from the memory that it lies in, and from pinned memory; the race waits for both.

    That the next step begins while such a copy is still going on is not in it.

    Args:
        tensor: what the loop copies.
        device: the device that it is copied to.
        has_workers: whether a DataLoader with workers loads it, which then pins it in a thread of its own. Without
            workers the training pins it, and waits for that.
    """
    if device.type != "cuda" or tensor.is_cuda or tensor.is_pinned():
        raise NothingToTryError("nothing is copied to a GPU from memory that is not pinned")
    pinned = tensor.pin_memory()
    yield lambda: tensor.to(device)
    yield lambda: (pinned if has_workers else tensor.pin_memory()).to(device, non_blocking=True)
