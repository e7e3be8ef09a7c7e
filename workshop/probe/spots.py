"""A few values of each tensor of a model and of its optimizers, which show whether something has moved it."""

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from workshop.probe.sharding import has_parts, inner_optimizer, parts

numpy: Any = sys.modules.get("numpy")
"""Torch has loaded it, if there is one."""

VALUES = 4
"""The number of values that are looked at in each tensor."""


class Spots:
    """Looks at the same values of each tensor again and again."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.parameters = parameters
        self._addresses: list[int] = []  # of the tensors that are looked at
        self._views: list[list[Any]] = []  # of those tensors that can be joined
        self._places: list[int] = []  # of the rows in what is joined
        self._is_sharded = has_parts(parameters)

    def values(self, optimizers: Sequence[Optimizer] = ()) -> "SpotValues":
        """Return values of each parameter, then of each tensor of the optimizers' state."""
        states = self._states(optimizers)
        of_states = [each for _, state in states for each in state.values() if isinstance(each, torch.Tensor)]
        tensors: Sequence[torch.Tensor] = [*self.parameters, *of_states]
        tensors = parts(tensors) if self._is_sharded else tensors
        addresses = list(map(torch.Tensor.data_ptr, tensors))
        if addresses != self._addresses:  # the memory of one has moved, or there are others
            self._look(tensors, states)
            self._addresses = addresses
        return SpotValues([_joined(views) for views in self._views], self._places)

    def still(self, before: "SpotValues | None", after: "SpotValues | None") -> tuple[int, ...]:
        """Return the parameters that did not change between two `values`; none if either is unknown."""
        return tuple(row for row in _rows(before, after, changed=False) if row < len(self.parameters))

    def _states(self, optimizers: Sequence[Optimizer]) -> list[tuple[tuple[int, int], dict[str, Any]]]:
        """The optimizers' state for each parameter, with the numbers of both."""
        states = [(which, inner_optimizer(optimizer).state) for which, optimizer in enumerate(optimizers)]
        numbered = enumerate(self.parameters)
        return [((number, which), state.get(each, {})) for number, each in numbered for which, state in states]

    def _look(self, tensors: Sequence[torch.Tensor], states: Sequence[tuple[tuple[int, int], dict[str, Any]]]) -> None:
        """Make views of some values of each tensor, and join those of a kind: Adam may count its steps elsewhere."""
        names = [(number, 0, "") for number in range(len(self.parameters))]
        names += [(*of, name) for of, state in states for name, each in state.items() if isinstance(each, torch.Tensor)]
        views = [_view(tensor, str(name)) for tensor, name in zip(tensors, names, strict=True)]
        kinds: dict[Any, list[int]] = {}
        for row, tensor in enumerate(tensors):
            kinds.setdefault((tensor.device, tensor.dtype), []).append(row)
        self._views = [[views[row] for row in rows] for rows in kinds.values()]
        self._places = [row for rows in kinds.values() for row in rows]


@dataclass(frozen=True)
class SpotValues:
    """Some values of each tensor, still on their devices, those of one kind together."""

    joined: list[Any]
    places: list[int]
    """The numbers of the tensors, in the order in which they are joined."""

    def rows(self) -> torch.Tensor:
        """Return the values in the shape (tensors, VALUES)."""
        joined = [torch.as_tensor(each).float().cpu().reshape(-1, VALUES) for each in self.joined]
        return torch.cat(joined)[torch.tensor(self.places).argsort()]


def _joined(views: Sequence[Any]) -> Any:
    return torch.cat(views) if isinstance(views[0], torch.Tensor) else numpy.concatenate(views)


def _view(tensor: torch.Tensor, seed: str) -> Any:
    """A view of some values of a tensor: on the CPU an array of NumPy, which joins them in a tenth of the time."""
    view = _some_values(tensor, seed)
    if numpy is None or view.device.type != "cpu" or view.dtype not in (torch.float32, torch.float64):
        return view
    return numpy.from_dlpack(view)  # unlike `view.numpy()`, it leaves the script's tensor free to be resized


def _some_values(tensor: torch.Tensor, seed: str) -> torch.Tensor:
    """A view of some values of a tensor; where its memory has gaps, none is a view, and zeros stand for them."""
    span = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    if not tensor.numel() or span != tensor.numel():
        return torch.zeros(2, VALUES // 2, device=tensor.device)
    stride = tensor.numel() // VALUES
    dice = random.Random(seed)  # two scripts are looked at in the same places
    first = tensor.storage_offset() + dice.randrange(stride or 1)
    strides = (2 * stride, stride) if stride else (tensor.numel() // 3, tensor.numel() // 2)  # all of two or three
    return tensor.detach().as_strided((2, VALUES // 2), strides, first)


def moved(before: SpotValues | None, after: SpotValues | None) -> tuple[int, ...]:
    """Return the rows in which something has changed from one time to another, or that are gone."""
    gone = range(len(after.places), len(before.places)) if before and after else ()
    return (*_rows(before, after, changed=True), *gone)


def _rows(before: SpotValues | None, after: SpotValues | None, changed: bool) -> tuple[int, ...]:
    if before is None or after is None:
        return ()
    rows = min(len(before.places), len(after.places))  # an optimizer has no state before its first step
    if not rows:
        return ()
    same = torch.isclose(before.rows()[:rows], after.rows()[:rows], rtol=0.0, atol=0.0, equal_nan=True)
    found = same.all(dim=1) != changed
    return tuple(found.nonzero().flatten().tolist())
