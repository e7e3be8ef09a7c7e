"""Finds the tensors that a process has, as Python and the graphs of autograd know them, and takes in those not seen."""

import gc
from collections.abc import Iterable
from typing import Any

import torch

from workshop.probe.internals import saved_tensors
from workshop.probe.memory.segment_table import FIRST_STEPS
from workshop.probe.memory.storage_lives import Life, StorageLives

MAX_NODES = 200_000
"""Nodes of graphs together, at most, that are gone through."""


def tensors_of_python() -> list[torch.Tensor]:
    """Return every tensor that Python code can reach."""
    kinds: dict[type, bool] = {}
    found = []
    for each in gc.get_objects():
        kind = type(each)
        is_one = kinds.get(kind)
        if is_one is None:
            is_one = kinds[kind] = torch.Tensor in getattr(kind, "__mro__", ())
        if is_one:
            found.append(each)
    return found


def saved_by_graphs(roots: Iterable[torch.Tensor], limit: int = MAX_NODES) -> list[torch.Tensor]:
    """Return the tensors that the graphs of some tensors keep for a backward pass."""
    found, seen = [], set[Any]()
    ahead = [each.grad_fn for each in roots if each.grad_fn is not None]
    while ahead and len(seen) < limit:
        node = ahead.pop()
        if node not in seen:
            seen.add(node)
            found += [each for each in saved_tensors(node) if isinstance(each, torch.Tensor)]
            ahead += [following for following, _ in node.next_functions if following is not None]
    return found


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
