"""Attention that is written as a softmax between two products of matrices, as the operators of a model make it.

It is seen below autograd, so that it does not matter how the products are written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from workshop.probe.observations import WireFrame
from workshop.probe.stack_sampler import user_stack_here

NEAR = 0.01
"""The largest difference of what is taken for the same: of a weight, or of a logit relative to its size."""

KEEP = {"clone", "_to_copy", "copy", "_unsafe_view"}
"""Operators that change no value, beside those that make views."""

MASK = {"add", "sub", "masked_fill", "where"}
"""Operators that add something, as a mask does."""


@dataclass
class Attention:
    """What enters attention, each tensor a batch of matrices, as far as it was seen."""

    query: torch.Tensor
    keys: torch.Tensor
    scale: float = 1.0
    mask: torch.Tensor | None = None
    """What is added before the softmax."""
    is_causal: bool = False
    stack: tuple[WireFrame, ...] = ()
    """The user's frames of the softmax; none before it."""
    dropout: float = 0.0
    entering: tuple[torch.Tensor, ...] = ()
    """Query, keys and values, once all were seen."""
    kept: list[torch.Tensor] = field(default_factory=list)
    """What came of the first product: as long as it lives, nothing else is in its place of the memory."""

    def take_mask(self, logits: torch.Tensor) -> None:
        """Note what was added to the product, given what goes into the softmax."""
        product = self.scale * torch.matmul(self.query.float(), self.keys.mT.float())
        added = logits.float().reshape(product.shape) - product
        is_none = added.abs() <= NEAR * (1.0 + product.abs())
        rows, columns = added.shape[1:]
        later = torch.ones(rows, columns, dtype=torch.bool, device=added.device).triu(1)
        self.is_causal = rows == columns > 1 and bool((added[:, later] < -1e3).all() and is_none[:, ~later].all())
        is_same = bool(torch.isclose(added, added[:1], atol=NEAR).all())
        self.mask = None if is_none.all() else (added[:1] if is_same else added).to(self.query.dtype)

    def weights(self, query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Return the softmax."""
        logits = torch.matmul(query, keys.mT) * self.scale
        return torch.softmax(logits if self.mask is None else logits + self.mask, -1)

    def by_hand(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Compute it with as few operators as it takes by hand."""
        return torch.matmul(functional.dropout(self.weights(query, keys), self.dropout, self.dropout > 0), values)

    def at_once(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Compute it in one operator."""
        mask = None if self.mask is None or self.is_causal else self.mask[None]
        query, keys, values = query[None], keys[None], values[None]
        compute = functional.scaled_dot_product_attention
        return compute(query, keys, values, mask, self.dropout, self.is_causal, scale=self.scale)[0]


class Products(TorchDispatchMode):
    """Follows what comes out of products of matrices, by its place in the memory, which views of it share."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.found: list[Attention] = []  # in the order of their second products
        self._layers = set(map(_place, model.parameters()))
        self._followed: dict[int, Attention] = {}

    def __torch_dispatch__(self, operator: Any, types: Any, inputs: Any = (), options: Any = None) -> Any:
        """Run an operator, and follow what it makes of what is followed."""
        output = operator(*inputs, **(options or {}))
        made = output[0] if isinstance(output, tuple) else output
        if not isinstance(made, torch.Tensor):
            return output
        name = operator.overloadpacket.__name__
        name = name.rstrip("_") if name.endswith("_") else name
        known = (self._followed.get(_place(each)) for each in inputs if isinstance(each, torch.Tensor))
        attention = next(filter(None, known), None)
        if name in ("mm", "bmm"):
            self._multiply(*(each if each.ndim == 3 else each[None] for each in (*inputs, made)))
        elif attention and (operator.is_view or self._goes_on(attention, name, inputs, made)):
            self._follow(attention, made)
        elif attention:
            self._followed.pop(_place(made), None)
        return output

    def _follow(self, attention: Attention, made: torch.Tensor) -> None:
        if made.numel():  # what has no values has no place
            self._followed[_place(made)] = attention
            attention.kept.append(made)

    def _multiply(self, first: torch.Tensor, second: torch.Tensor, made: torch.Tensor) -> None:
        """Note the second product, or begin with the first: that with a parameter is no attention, but a layer."""
        attention = self._followed.get(_place(first))
        if attention and attention.stack:
            weights = attention.weights(attention.query, attention.keys)
            if first.shape == weights.shape and _are_near(first, weights, attention.dropout):
                attention.entering = attention.query, attention.keys, second
                self.found.append(attention)
            self._followed = {place: each for place, each in self._followed.items() if each is not attention}
            attention.kept.clear()
        elif _place(second) not in self._layers:
            self._follow(Attention(first, second.mT), made)

    def _goes_on(self, attention: Attention, name: str, inputs: Sequence[Any], made: torch.Tensor) -> bool:
        """Note what an operator does; return whether it may be a part of attention."""
        others = [each for each in inputs if not (isinstance(each, torch.Tensor) and _place(each) in self._followed)]
        number = _number(others[0]) if others else None
        if name in KEEP:
            return True
        if attention.stack and name == "native_dropout":
            attention.dropout = inputs[1]
        elif attention.stack:  # a dropout multiplies with 0, or with more than 1
            is_dropout = name == "mul" and number is None
            attention.dropout = 1.0 - 1.0 / max(float(others[0].max()), 1.0) if is_dropout else 0.0
            return is_dropout
        elif name == "_softmax" and inputs[1] in (-1, made.ndim - 1):
            attention.take_mask(inputs[0])
            attention.stack = user_stack_here()
        elif name in ("mul", "div") and number:
            attention.scale *= number if name == "mul" else 1.0 / number
        else:
            return name in MASK
        return True


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _number(value: Any) -> float | None:
    """The number that a factor is; None for anything else."""
    is_one = isinstance(value, float | int) or (isinstance(value, torch.Tensor) and value.numel() == 1)
    return float(value) if is_one else None


def _are_near(seen: torch.Tensor, weights: torch.Tensor, dropout: float) -> bool:
    kept = seen != 0
    return bool(((seen.float() * (1.0 - dropout) - weights.float()).abs() <= NEAR)[kept].all())
