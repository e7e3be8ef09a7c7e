"""Which activations a backward pass finds that need not be there: for gradients nobody uses, or of several passes."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from workshop.probe.backward_graph import nodes_of
from workshop.probe.internals import saved_tensors
from workshop.probe.memory.inventory import saved_by_graphs
from workshop.probe.memory.storage_lives import Life, StorageLives
from workshop.probe.memory.user_stacks import UserCall, UserStacks
from workshop.probe.optimizers import all_optimizers, parameters_of

ADDS_UP = ("Add", "Sub", "Neg", "Div", "Mul", "Sum", "Mean", "Stack", "Cat", "Unsqueeze", "View", "Squeeze", "ToCopy")
"""What adds up losses, perhaps with a factor: the first letters of the nodes."""

LARGE = 0.1
"""Where to change something, storages decide that are at least this part as large as the largest."""

Freed = tuple[list[Life], int]
"""What need not be there, and the number of the stack on which to change that."""


class GraphUse:
    """The graph of a backward pass that is about to run.

    Args:
        roots: the tensors that it begins at.
        lives: the storages that are known.
    """

    def __init__(self, roots: list[torch.Tensor], lives: StorageLives) -> None:
        self._roots, self._lives = roots, lives
        self._nodes = nodes_of(roots)

    def unused(self, trained: Collection[int]) -> Freed:
        """Return what is kept only for gradients of parameters whose identities are not among the `trained` ones."""
        parents: defaultdict[Any, list[Any]] = defaultdict(list)
        for node in self._nodes:
            for following, _ in node.next_functions:
                parents[following].append(node)
        ahead = [each for each in self._nodes if _is_wanted(getattr(each, "variable", None), trained)]
        useful = set(ahead)
        while ahead:
            for node in parents[ahead.pop()]:
                if node not in useful:
                    useful.add(node)
                    ahead.append(node)
        unused = [each for each in self._nodes if each not in useful]
        if not useful or not unused:
            return [], -1
        own, others = self._stacks_of(unused), self._stacks_of(useful)
        freed = [each for each in self._kept_by(unused, self._kept_by(useful)) if each.stack in own]  # not its inputs
        large = {each.stack for each in freed if each.size >= LARGE * max(life.size for life in freed)}
        return freed, call_of(self._lives.stacks, large, others)

    def summed(self) -> Freed:
        """Return what all but one of several passes through the same lines keep, whose losses are added up."""
        groups = self._terms()
        lines = [self._stacks_of(each) for each in groups]
        if len(groups) < 2 or not lines[0] or any(each != lines[0] for each in lines):
            return [], -1
        kept = [self._kept_by(each) for each in groups]
        largest = max(kept, key=lambda each: sum(life.size for life in each))
        freed = {life for each in kept if each is not largest for life in each} - set(largest)
        return list(freed), self._lives.stack_of(self._roots[0].grad_fn)

    def _terms(self) -> list[set[Any]]:
        """The nodes of each of the terms of a sum that have no node in common but those of parameters."""
        groups: list[set[Any]] = []
        for term in _terms_of(self._roots[0].grad_fn):
            own = _below(term)
            together = [each for each in groups if not each.isdisjoint(own)]
            groups = [each for each in groups if each.isdisjoint(own)] + [own.union(*together)]
        return groups

    def _kept_by(self, nodes: Collection[Any], but: Collection[Life] = ()) -> list[Life]:
        """The storages of this segment that some nodes keep."""
        lives = {self._lives.find(each) for node in nodes for each in saved_tensors(node)} - {None, *but}
        return [each for each in lives if each is not None and each.segment == self._lives.segment]

    def _stacks_of(self, nodes: Collection[Any]) -> set[int]:
        return {number for each in nodes if (number := self._lives.stack_of(each)) >= 0}


def _is_wanted(leaf: Any, trained: Collection[int]) -> bool:
    return leaf is not None and (id(leaf) in trained or not isinstance(leaf, nn.Parameter))


def _terms_of(root: Any) -> Iterator[Any]:
    """Yield the nodes at which the terms of a sum begin."""
    ahead, seen = [root], set[Any]()
    while ahead:
        node = ahead.pop()
        following = [each for each, _ in node.next_functions if each is not None]
        is_product = node.name().startswith("Mul") and len(following) > 1
        if node in seen:
            continue
        seen.add(node)
        if node.name().startswith(ADDS_UP) and not is_product:
            ahead += following
        elif not hasattr(node, "variable"):
            yield node


def _below(root: Any) -> set[Any]:
    """The nodes that a pass from this one goes through, without those of parameters."""
    found, ahead = set[Any](), [root]
    while ahead:
        node = ahead.pop()
        if node not in found and not hasattr(node, "variable"):
            found.add(node)
            ahead += [each for each, _ in node.next_functions if each is not None]
    return found


class Unneeded:
    """What the backward passes of a step have found and do not need, by the cause.

    Args:
        lives: the storages that are known.
    """

    def __init__(self, lives: StorageLives) -> None:
        self._lives = lives
        self._optimized: set[int] = set()
        self._freed: dict[str, Freed] = {}

    def begin(self) -> None:
        """Begin another step."""
        self._freed = {}

    def know_optimizers(self) -> None:
        """Learn which parameters are trained: of every optimizer, also of those that have not stepped yet."""
        self._optimized = {id(each) for optimizer in all_optimizers() for each in parameters_of(optimizer)}

    def on_backward(self, roots: list[torch.Tensor]) -> None:
        """Look at the graph of a pass that is about to run."""
        if roots and self._optimized:
            use = GraphUse(roots, self._lives)
            self._add("unused-graph", use.unused(self._optimized))
            self._add("graphs-at-once", use.summed())

    def after_backward(self, parameters: Iterable[nn.Parameter]) -> None:
        """Look at the gradients that it has computed."""
        with_gradients = [each for each in parameters if each.grad is not None]
        if "unused-graph" in self._freed:
            unused = (self._lives.find(each.grad) for each in with_gradients if id(each) not in self._optimized)
            self._add("unused-graph", ([each for each in unused if each is not None], self._freed["unused-graph"][1]))
        with_graph = [each.grad for each in with_gradients if each.grad is not None and each.grad.grad_fn is not None]
        if with_graph:
            self._add("graph-of-gradients", kept_by_gradients(with_graph, self._lives))

    def of_device(self, device: str) -> Iterator[tuple[str, list[Life], int]]:
        """Yield each cause with what need not be there on a device, and the number of the stack to change."""
        for cause, (lives, stack) in self._freed.items():
            yield cause, [each for each in set(lives) if each.device == device], stack

    def _add(self, cause: str, freed: Freed) -> None:
        lives, stack = freed
        if lives:
            self._freed[cause] = [*self._freed.get(cause, ([], -1))[0], *lives], stack


def kept_by_gradients(gradients: Sequence[torch.Tensor], lives: StorageLives) -> Freed:
    """Return what the graph of gradients keeps that a backward pass has computed with `create_graph`."""
    stack = next((life.called_from for each in gradients if (life := lives.find(each)) is not None), -1)
    kept = {lives.find(each) for each in saved_by_graphs(gradients)} - {None}
    return [each for each in kept if each is not None and each.called_from == stack >= 0], stack


def call_of(stacks: UserStacks, some: Collection[int], others: Collection[int]) -> int:
    """Return the number of the stack of the outermost call that all of some stacks have, and none of others.

    If it is the innermost one, in a module's forward, the call of that module is returned.
    """
    common = _common([stacks.calls(each) for each in some])
    paths = [stacks.calls(each) for each in others]
    depth = next((n for n in range(len(common)) if all(each[: n + 1] != common[: n + 1] for each in paths)), None)
    if depth is None:
        return stacks.of_calls(common) if common else -1
    if depth and depth == len(common) - 1 and common[depth][0].co_name == "forward":
        depth -= 1
    return stacks.of_calls(common[: depth + 1])


def _common(paths: Sequence[list[UserCall]]) -> list[UserCall]:
    """The calls with which all of some stacks begin."""
    found = []
    for calls in zip(*paths, strict=False):
        if len(set(calls)) > 1:
            break
        found.append(calls[0])
    return found
