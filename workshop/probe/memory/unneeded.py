"""What the backward passes of a step have found and do not need: of their graphs, and of the gradients they compute."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakSet

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.memory.graph_use import Freed, GraphUse
from workshop.probe.memory.inventory import saved_by_graphs
from workshop.probe.memory.storage_lives import Life, StorageLives
from workshop.probe.optimizers import all_optimizers

SILENT_STEPS = 2
"""Steps, at least, in which the gradient of a parameter must have been 0: some are only in the first."""


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
