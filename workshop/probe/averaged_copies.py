"""Copies of the model that a script keeps beside it and changes in its steps, such as an average of its parameters."""

from collections.abc import Sequence
from weakref import ref

import torch
from torch import nn

from workshop.probe.garbage import all_of


class AveragedCopies:
    """Finds them among all modules that are alive: they have the model's shapes, and are called in validations only.

    Attributes:
        found: those that have changed since they were looked for.
    """

    def __init__(self) -> None:
        self.found: list[nn.Module] = []
        self._alike: list[tuple[ref[nn.Module], torch.Tensor]] = []  # with some values of each

    def look(self, parameters: Sequence[nn.Parameter], others: Sequence[nn.Module]) -> None:
        """Look for modules like the model, given its parameters; those that are followed as `others` are none."""
        known = {id(each) for each in (*parameters, *(each for other in others for each in other.parameters()))}
        shapes = [each.shape for each in parameters]
        for module in all_of(nn.Module):
            own = list(module.parameters())
            if own and id(own[0]) not in known and [each.shape for each in own] == shapes:
                known.add(id(own[0]))  # a wrapper has the same ones
                self._alike.append((ref(module), _some_values(module)))

    def take(self) -> None:
        """Take those that have changed."""
        for module, values in self._alike:
            copy = module()
            is_new = copy is not None and not any(copy is each for each in self.found)
            if copy is not None and is_new and not torch.equal(values, _some_values(copy)):
                self.found.append(copy)


def _some_values(module: nn.Module) -> torch.Tensor:
    return torch.cat([each.detach().flatten()[:4].float().cpu() for each in module.parameters()])
