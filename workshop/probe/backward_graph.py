"""The graph that a backward pass goes through."""

from typing import Any

import torch

MAX_OPERATIONS = 20_000
"""A graph with more operations is cut at this number."""


def roots_of(tensors: Any) -> list[torch.Tensor]:
    """Return the tensors that a backward pass begins at, of its first argument."""
    given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    return [each for each in given if isinstance(each, torch.Tensor) and each.grad_fn is not None]


def nodes_of(tensors: list[torch.Tensor]) -> list[Any]:
    """Return all operations that a backward pass from these tensors runs."""
    return nodes_below([tensor.grad_fn for tensor in tensors])


def nodes_below(ahead: list[Any]) -> list[Any]:
    """Return these operations of a graph, and all that a backward pass runs after them."""
    found: dict[Any, None] = {}
    ahead = [*ahead]
    while ahead and len(found) < MAX_OPERATIONS:
        node = ahead.pop()
        if node not in found:
            found[node] = None
            ahead += [following for following, _ in node.next_functions if following is not None]
    return list(found)
