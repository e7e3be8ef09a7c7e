"""What the backward passes of a step find and do not need: of their graphs, and of the gradients they compute."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.backward_graph import BackwardGraph, following_of, nodes_below, saved_by_graphs
from workshop.probe.internals import saved_tensors, sequence_number
from workshop.probe.memory.storage_lives import Life, StorageLives
from workshop.probe.memory.user_stacks import UserCall, UserStacks
from workshop.probe.optimizers import all_optimizers

SILENT_STEPS = 2
"""Steps, at least, in which the gradient of a parameter must have been 0: some are only in the first."""

ADDS_UP = ("Add", "Sub", "Neg", "Div", "Mul", "Sum", "Mean", "Stack", "Cat", "Unsqueeze", "View", "Squeeze", "ToCopy")
"""What adds up losses, perhaps with a factor: the first letters of the nodes."""

MIN_SHARE_OF_LARGEST = 0.1
"""Size, at least, as a share of the largest storage, of those that decide where to change something."""

SHAPES = ("TBackward", "Transpose", "Permute", "View", "UnsafeView", "ToCopy", "Expand", "Unsqueeze", "Squeeze")
"""What may be between a parameter and the operator that computes with it: the first letters of the nodes."""


class Freed(NamedTuple):
    """What need not be there."""

    lives: Sequence[Life] = ()
    stack: int = -1
    """The number of the stack on which to change that."""
    nodes: frozenset[int] = frozenset()
    """The numbers of the nodes of the graph that need not run backward, either."""
    stacks: frozenset[int] = frozenset()
    """The stacks on which nothing need be made."""


class Unneeded:
    """What the backward passes of a step have found and do not need, by the cause.

    Args:
        lives: the storages that are known.
    """

    def __init__(self, lives: StorageLives) -> None:
        self._lives = lives
        self._optimizers: WeakSet[Optimizer] = WeakSet()
        self._known = 0
        self._freed: dict[str, Freed] = {}
        self._zeros, self._not_silent = Counter[int](), set[int]()

    def begin(self) -> None:
        """Begin another step."""
        self._freed = {}

    def know_optimizers(self) -> None:
        """Learn which parameters are trained: of every optimizer, also of those that have not stepped yet."""
        self._optimizers = WeakSet(all_optimizers())
        self._known = len(self._optimizers)

    def on_backward(self, roots: list[torch.Tensor]) -> None:
        """Look at the graph of a pass that is about to run."""
        if len(self._optimizers) < self._known:  # one is gone, and another may have its parameters
            self.know_optimizers()
        if roots and (changed := changed_parameters(self._optimizers)):
            use = GraphUse(roots, self._lives)
            self._add("unused-graph", use.unused(changed))
            self._add("graphs-at-once", use.summed())
            if silent := self._silent & changed:
                self._add("zero-gradients", use.without_gradient(silent))

    def after_backward(self, parameters: Iterable[nn.Parameter]) -> None:
        """Look at the gradients that it has computed."""
        changed, silent = changed_parameters(self._optimizers), self._silent
        with_gradients = [each for each in parameters if each.grad is not None]
        unused = [each for each in with_gradients if id(each) not in changed]
        self._add_computed("unused-graph", unused)
        self._add_computed("zero-gradients", [each for each in with_gradients if id(each) in silent])
        with_graph = [each.grad for each in with_gradients if each.grad is not None and each.grad.grad_fn is not None]
        if with_graph:
            self._add("graph-of-gradients", kept_by_gradients(with_graph, self._lives))

    def on_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Look at gradients that an optimizer is about to use: are they 0?"""
        for each in parameters:
            if each.grad is not None and id(each) not in self._not_silent:
                if _is_zero(each.grad):
                    self._zeros[id(each)] += 1
                else:
                    self._not_silent.add(id(each))
                    self._freed.pop("zero-gradients", None)

    @property
    def _silent(self) -> set[int]:
        """The parameters whose gradients have been 0 each time."""
        return {each for each, times in self._zeros.items() if times >= SILENT_STEPS} - self._not_silent

    def of_device(self, device: str) -> Iterator[tuple[str, list[Life], int]]:
        """Yield each cause with what need not be there on a device, and the number of the stack to change."""
        for cause, freed in self._freed.items():
            once = {id(each): each for each in freed.lives}.values()  # the hash of one that is dead cannot be asked
            yield cause, [each for each in once if each.device == device], freed.stack

    def _add(self, cause: str, freed: Freed) -> None:
        if freed.lives:
            before = self._freed.get(cause, Freed())
            lives, nodes = [*before.lives, *freed.lives], before.nodes | freed.nodes
            self._freed[cause] = freed._replace(lives=lives, nodes=nodes)

    def _add_computed(self, cause: str, parameters: Iterable[nn.Parameter]) -> None:
        """Add the gradients of these parameters, and what else was computed on the way to them."""
        if freed := self._freed.get(cause):
            gradients = [life for each in parameters if (life := self._lives.find(each.grad)) is not None]
            all_lives = (*self._lives.alive.values(), *self._lives.dead)
            made = [each for each in all_lives if each.made_by in freed.nodes or each.stack in freed.stacks]
            self._freed[cause] = freed._replace(lives=[*freed.lives, *gradients, *made])


def changed_parameters(optimizers: Iterable[Optimizer]) -> set[int]:
    """Return the identities of the parameters that optimizers change, as far as can be told: the rate is not 0."""
    groups = [group for each in optimizers for group in each.param_groups]
    return {id(each) for group in groups if not _is_still(group.get("lr")) for each in group["params"]}


def _is_still(rate: object) -> bool:
    """Whether a learning rate is 0; it may also be None, a list, a function, or on a device not to wait for."""
    if isinstance(rate, torch.Tensor):
        return type(rate) is torch.Tensor and rate.device.type == "cpu" and rate.numel() == 1 and rate.item() == 0
    return isinstance(rate, (int, float)) and rate == 0


def _is_zero(gradient: torch.Tensor) -> bool:
    """Whether all of a gradient is 0; other classes of tensors might have to ask other processes."""
    if type(gradient) is not torch.Tensor or gradient.layout is not torch.strided or gradient.is_meta:
        return False
    pieces = (gradient,)
    if gradient.device.type == "cpu" and gradient.is_contiguous():  # `any` makes a copy of what it is asked of
        pieces = gradient.detach().view(-1).split(1 << 16)
    return not any(bool(each.any()) for each in pieces)


def kept_by_gradients(gradients: Sequence[torch.Tensor], lives: StorageLives) -> Freed:
    """Return what the graph of gradients keeps that a backward pass has computed with `create_graph`."""
    stack = next((life.called_from for each in gradients if (life := lives.find(each)) is not None), -1)
    kept = {lives.find(each) for each in saved_by_graphs(gradients)} - {None}
    return Freed([each for each in kept if each is not None and each.called_from == stack >= 0], stack)


class GraphUse:
    """The graph of a backward pass that is about to run.

    Args:
        roots: the tensors that it begins at.
        lives: the storages that are known.
    """

    def __init__(self, roots: list[torch.Tensor], lives: StorageLives) -> None:
        self._graph, self._lives = BackwardGraph(roots), lives

    def unused(self, trained: Collection[int]) -> Freed:
        """Return what is kept only for gradients of parameters whose identities are not among the `trained` ones."""
        useful = self._graph.above(node for node, leaf in self._graph.leaves.items() if _is_wanted(leaf, trained))
        unused = [each for each in self._graph.nodes if each not in useful]
        if not useful or not unused:
            return Freed()
        others, freed = self._stacks_of(useful), self._kept_by_these(unused, useful)
        if not freed:
            return Freed()
        large = {each.stack for each in freed if each.size >= MIN_SHARE_OF_LARGEST * max(life.size for life in freed)}
        return Freed(freed, call_of(self._lives.stacks, large, others), _numbers(unused))

    def without_gradient(self, silent: Collection[int]) -> Freed:
        """Return what is kept only to compute gradients that are 0, given the parameters whose gradients always are.

        If all parameters of an operator have a gradient of 0, it gets one of 0 itself, and hands on no other. There are
        exceptions, as a parameter that is chosen by `torch.where`: then parameters behind it have other gradients.
        """
        idle = self._below_and_above(self._silent_nodes(silent))
        leaves = [leaf for node, leaf in self._graph.leaves.items() if node in idle]
        useful = [each for each in self._graph.nodes if each not in idle]
        if any(id(each) not in silent for each in leaves) or any(each.grad_fn in idle for each in self._graph.roots):
            return Freed()
        if not (freed := self._kept_by_these(idle, useful)):
            return Freed()
        stack = max(freed, key=lambda each: each.size).stack
        return Freed(freed, stack, _numbers(idle), frozenset(self._stacks_of(idle) - self._stacks_of(useful)))

    def _silent_nodes(self, silent: Collection[int]) -> set[Any]:
        """The nodes that compute with parameters, all of which are silent."""
        found, others = set[Any](), set[Any]()
        for leaf, parameter in self._graph.leaves.items():
            ahead = [leaf] * isinstance(parameter, nn.Parameter)
            while ahead:
                for node in self._graph.parents[ahead.pop()]:
                    if node.name().startswith(SHAPES):
                        ahead.append(node)
                    else:
                        (found if id(parameter) in silent else others).add(node)
        return found - others

    def _below_and_above(self, idle: set[Any]) -> set[Any]:
        """With these nodes, those all of whose results go to such nodes, or all of whose gradients."""
        idle, ahead = set(idle), [*idle]
        while ahead:
            node = ahead.pop()
            above = [each for each in self._graph.parents[node] if each not in idle and following_of(each) <= idle]
            below = [each for each in following_of(node) - idle if idle.issuperset(self._graph.parents[each])]
            idle.update(above, below)
            ahead += [*above, *below]
        return idle

    def summed(self) -> Freed:
        """Return what all but one of several passes through the same lines keep, whose losses are added up."""
        groups = self._terms()
        lines = [self._stacks_of(each) for each in groups]
        if len(groups) < 2 or not lines[0] or any(each != lines[0] for each in lines):
            return Freed()
        kept = [self._kept_by(each) for each in groups]
        largest = max(kept, key=lambda each: sum(life.size for life in each))
        freed = {life for each in kept if each is not largest for life in each} - set(largest)
        return Freed([*freed], self._lives.stack_of(self._graph.roots[0].grad_fn))

    def _terms(self) -> list[set[Any]]:
        """The nodes of each of the terms of a sum that have no node in common but those of parameters."""
        groups: list[set[Any]] = []
        for term in _terms_of(self._graph.roots[0].grad_fn):
            own = set(nodes_below([term])) - self._graph.leaves.keys()
            together = [each for each in groups if not each.isdisjoint(own)]
            groups = [each for each in groups if each.isdisjoint(own)] + [own.union(*together)]
        return groups

    def _kept_by_these(self, nodes: Collection[Any], others: Collection[Any]) -> list[Life]:
        """The storages that some nodes keep and others do not, without the inputs of these nodes."""
        own = self._stacks_of(nodes)
        return [each for each in self._kept_by(nodes, self._kept_by(others)) if each.stack in own]

    def _kept_by(self, nodes: Collection[Any], but: Collection[Life] = ()) -> list[Life]:
        """The storages of this segment that some nodes keep."""
        lives = {self._lives.find(each) for node in nodes for each in saved_tensors(node)} - {None, *but}
        return [each for each in lives if each is not None and each.segment == self._lives.segment]

    def _stacks_of(self, nodes: Collection[Any]) -> set[int]:
        return {number for each in nodes if (number := self._lives.stack_of(each)) >= 0}


def _numbers(nodes: Iterable[Any]) -> frozenset[int]:
    return frozenset(map(sequence_number, nodes)) - {0}


def _is_wanted(leaf: Any, trained: Collection[int]) -> bool:
    return id(leaf) in trained or not isinstance(leaf, nn.Parameter)


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


def call_of(stacks: UserStacks, some: Collection[int], others: Collection[int]) -> int:
    """Return the number of the stack of the outermost call that all of some stacks have, and none of others.

    If all end there, in a module's forward, the call of that module is returned.
    """
    own = [stacks.calls(each) for each in some]
    common = _common(own)
    paths = [stacks.calls(each) for each in others]
    depth = next((n for n in range(len(common)) if all(each[: n + 1] != common[: n + 1] for each in paths)), None)
    if depth is None:
        return stacks.of_calls(common) if common else -1
    if depth and common[depth][0].co_name == "forward" and all(len(each) == depth + 1 for each in own):
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
