"""The model whose training is judged: the first one with parameters that the script calls with gradients."""

import operator
from collections.abc import Iterable
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.internals import is_compiled
from workshop.probe.optimizers import parameters_of
from workshop.probe.spots import Spots


class FollowedModel:
    """A model, its parameters, and the other models beside it."""

    def __init__(self, root: nn.Module, others: list[nn.Module]) -> None:
        self.root = root  # the module that the script calls
        self.module = innermost(root)  # that has all of its parameters
        self.others = others  # that the script calls, too, such as a teacher, in the order of their first calls
        self._shares = WeakKeyDictionary[Optimizer, tuple[list[nn.Parameter], set[nn.Parameter]]]()
        self.take_parameters()

    def take_parameters(self) -> None:
        """Take those that it has now: a model that is sharded has others while it is called than at its step."""
        self.parameters = list(self.module.parameters())
        self._known = set(self.parameters)
        self._shares.clear()
        self.smallest = min(self.parameters, key=torch.numel)  # of the fewest values
        self.trained = {parameter for parameter in self.parameters if parameter.requires_grad}
        self.spots = Spots(self.parameters)
        self.spots_of_buffers = Spots(list(self.module.buffers()))
        self.others = [each for each in self.others if self.is_foreign(each.parameters())]

    def is_foreign(self, parameters: Iterable[nn.Parameter]) -> bool:
        """Return whether there is one among some parameters that is not of this model."""
        return not self._known.issuperset(parameters)

    def share_of(self, optimizer: Optimizer) -> set[nn.Parameter]:
        """Return the parameters of the model that an optimizer steps."""
        stepped = parameters_of(optimizer)
        seen, share = self._shares.get(optimizer, ([], set()))
        if len(seen) != len(stepped) or not all(map(operator.is_, seen, stepped)):
            share = self._known.intersection(stepped)
            self._shares[optimizer] = stepped, share
        return share

    def number_of(self, module: nn.Module, is_new: bool) -> int | None:
        """Return the number of a model: 0 for this one, 1 for the first of the others.

        None for what is around this one, or a part of it, and for a module without parameters; and for one that was not
        called before, unless it `is_new` as other models are: an averaged copy is called in validations alone.
        """
        if module is self.module:
            return 0
        known = next((number for number, each in enumerate(self.others, 1) if each is module), None)
        if known is None and is_new and self.is_foreign(module.parameters()):
            self.others.append(module)
            return len(self.others)
        return known


def innermost(module: nn.Module) -> nn.Module:
    """Return the module inside of wrappers, frameworks and transforms of the input, which has all of the parameters."""
    children = [child for child in module.children() if not type(child).__module__.startswith("torchvision.transforms")]
    if len(children) != 1 or is_compiled(module) or isinstance(module, torch.jit.ScriptModule):
        return module
    has_all = sum(1 for _ in children[0].parameters()) == sum(1 for _ in module.parameters())
    return innermost(children[0]) if has_all else module
