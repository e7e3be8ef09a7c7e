"""The graph that a backward pass goes through, and what of it is needed for some gradients."""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import torch

from workshop.probe.internals import saved_tensors

MAX_OPERATIONS, MAX_KEPT = 20_000, 200_000
"""The number of operations at which a graph is cut, and where only what is kept is asked for."""


class BackwardGraph:
    """The operations that a backward pass runs from some tensors."""

    def __init__(self, roots: list[torch.Tensor]) -> None:
        self.roots = roots
        self.nodes = nodes_below(each.grad_fn for each in roots)

    @cached_property
    def leaves(self) -> dict[Any, torch.Tensor]:
        """The operations that fill gradients, each with the tensor whose gradient it is."""
        return {each: each.variable for each in self.nodes if hasattr(each, "variable")}

    @cached_property
    def parents(self) -> dict[Any, list[Any]]:
        """Of each operation, those that a pass comes from."""
        parents: defaultdict[Any, list[Any]] = defaultdict(list)
        for node in self.nodes:
            for following in following_of(node):
                parents[following].append(node)
        return parents

    def above(self, nodes: Iterable[Any]) -> set[Any]:
        """Return these operations, and all through which a pass comes to them: what is needed for their sake."""
        ahead = [*nodes]
        found = set(ahead)
        while ahead:
            new = set(self.parents[ahead.pop()]) - found
            found |= new
            ahead += new
        return found


def roots_of(tensors: Any) -> list[torch.Tensor]:
    """Return the tensors that a backward pass begins at, of its first argument."""
    given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    return [each for each in given if isinstance(each, torch.Tensor) and each.grad_fn is not None]


def nodes_below(ahead: Iterable[Any], most: int = MAX_OPERATIONS) -> list[Any]:
    """Return these operations of a graph, and all that a backward pass runs after them, up to so many."""
    found: dict[Any, None] = {}
    ahead = [*ahead]
    while ahead and len(found) < most:
        node = ahead.pop()
        if node not in found:
            found[node] = None
            ahead += [following for following, _ in node.next_functions if following is not None]
    return list(found)


def following_of(node: Any) -> set[Any]:
    """Return the operations that a backward pass runs right after one."""
    return {each for each, _ in node.next_functions if each is not None}


def saved_by_graphs(roots: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors that the graphs of some tensors keep for a backward pass, however long these are."""
    nodes = nodes_below((each.grad_fn for each in roots if each.grad_fn is not None), MAX_KEPT)
    return [kept for node in nodes for kept in saved_tensors(node) if isinstance(kept, torch.Tensor)]
