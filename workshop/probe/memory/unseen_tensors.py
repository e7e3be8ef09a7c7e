"""Takes in tensors of steps that were not recorded."""

from typing import Any

import torch

from workshop.probe.memory.inventory import saved_by_graphs, tensors_of_python
from workshop.probe.memory.segment_table import FIRST_STEPS
from workshop.probe.memory.storage_lives import Life, StorageLives


def adopt_unseen(lives: StorageLives) -> None:
    """Take in what there is and was not seen: one like others is taken to be from the same line."""
    alike: dict[Any, Life] = {}
    pythons = tensors_of_python()
    for key, life in (
        *((_looks(each), lives.find(each)) for each in pythons),
        *((_size(each), each) for each in lives.alive.values()),
    ):
        if life is not None and life.step >= FIRST_STEPS:
            alike.setdefault(key, life)
    for each in (*pythons, *saved_by_graphs(each for each in pythons if each.grad_fn is not None)):
        if lives.find(each) is None and (found := lives.adopt(each, -1)) is not None:
            like = alike.get(_looks(each)) or alike.get(_size(found))
            if like is not None:
                found.stack, found.kind, found.step = like.stack, like.kind, max(like.step, FIRST_STEPS)


def _looks(tensor: torch.Tensor) -> Any:
    """What tensors have in common that the same line has made."""
    return str(tensor.device), tensor.dtype, tensor.shape, type(tensor.grad_fn)


def _size(life: Life) -> Any:
    return life.device, life.dtype, life.size
