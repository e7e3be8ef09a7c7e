"""A few values of each tensor of a model and of its optimizers, which show whether something has moved it."""

import random
from collections.abc import Iterator, Sequence

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.sharding import inner_optimizer, part

VALUES = 4
"""The number of values that are looked at in each tensor."""


class Spots:
    """Looks at the same values of each tensor again and again."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        self._views: dict[tuple[int, int, str], tuple[int, torch.Tensor]] = {}

    def values(self, optimizers: Sequence[Optimizer]) -> torch.Tensor:
        """Return values of shape (tensors, VALUES): a row for each parameter, then for each tensor of the state."""
        with torch.no_grad():
            views = [self._view((number, 0, ""), each) for number, each in enumerate(self.parameters)]
            rows = [torch.cat(views).float()]
            if states := [self._view(key, tensor) for key, tensor in self._states(optimizers)]:
                devices = dict.fromkeys(view.device for view in states)  # Adam keeps the number of steps on the CPU
                rows += [torch.cat([view for view in states if view.device == each]).float() for each in devices]
            return torch.cat([each.to(rows[0].device) for each in rows]).reshape(-1, VALUES)

    def still(self, before: torch.Tensor | None, after: torch.Tensor | None) -> tuple[int, ...]:
        """Return the parameters that did not change between two `values`; none if either is unknown."""
        return tuple(row for row in _rows(before, after, changed=False) if row < len(self.parameters))

    def _states(self, optimizers: Sequence[Optimizer]) -> Iterator[tuple[tuple[int, int, str], torch.Tensor]]:
        """The tensors of the optimizers' state for each parameter."""
        for number, parameter in enumerate(self.parameters):
            for which, optimizer in enumerate(optimizers):
                for name, tensor in inner_optimizer(optimizer).state.get(parameter, {}).items():
                    if isinstance(tensor, torch.Tensor) and tensor.numel():
                        yield (number, which, name), tensor

    def _view(self, key: tuple[int, int, str], tensor: torch.Tensor) -> torch.Tensor:
        """A view of some values, made again if the tensor's memory has moved."""
        tensor, known = part(tensor), self._views.get(key)
        if known is None or known[0] != tensor.data_ptr():
            self._views[key] = known = tensor.data_ptr(), _some_values(tensor, str(key))
        return known[1]


def _some_values(tensor: torch.Tensor, seed: str) -> torch.Tensor:
    """A view of some values of a tensor; where its memory has gaps, none is a view, and zeros stand for them."""
    span = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    if not tensor.numel() or span != tensor.numel():
        return torch.zeros(VALUES, device=tensor.device)
    stride = tensor.numel() // VALUES  # 0 for a smaller tensor: the same value comes again
    dice = random.Random(seed)  # two scripts are looked at in the same places
    first = tensor.storage_offset() + dice.randrange(stride or tensor.numel())
    return tensor.detach().as_strided((VALUES,), (stride,), first)


def moved(before: torch.Tensor | None, after: torch.Tensor | None) -> tuple[int, ...]:
    """Return the rows in which something has changed from one time to another, or that are gone."""
    gone = range(len(after), len(before)) if before is not None and after is not None else ()
    return (*_rows(before, after, changed=True), *gone)


def _rows(before: torch.Tensor | None, after: torch.Tensor | None, changed: bool) -> tuple[int, ...]:
    if before is None or after is None:
        return ()
    rows = min(len(before), len(after))  # an optimizer has no state before its first step
    same = torch.isclose(before[:rows], after[:rows], rtol=0.0, atol=0.0, equal_nan=True)
    found = same.all(dim=1) != changed
    return tuple(found.nonzero().flatten().tolist())
