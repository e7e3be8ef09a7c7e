"""Finds the tensors that a process has, as Python and the graphs of autograd know them."""

import gc
from collections.abc import Iterable
from typing import Any

import torch

from workshop.probe.internals import saved_tensors

MAX_NODES = 200_000
"""Graphs with more nodes together are gone through no further."""


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
