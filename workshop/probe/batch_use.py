"""Which of the batches that DataLoaders have handed out a training step is taken with."""

from collections import deque
from typing import Any
from weakref import ref

import torch
from torch.utils.data import DataLoader

from workshop.probe.internals import names_of, tree_flatten

MAX_RECENT = 8
"""A script may load this many batches ahead."""


class BatchUse:
    """Finds the batch that a tensor comes from: the input of a model, or the targets of a loss.

    Batches are not kept alive, but for the last one. Another thread may load batches meanwhile.

    Attributes:
        loader: the DataLoader of the training that began last.
        last: the batch that was handed out last.
        of_step: the batches that the present step was seen to use, as they were handed out.
        loaded: the number of batches handed out in this step to the thread that trains.
        is_plain: whether a step was seen to use the batch that was handed out last: the loop loads nothing ahead.
        varies: whether the items of one batch had another shape than those of the one before, as padded sentences do.
    """

    def __init__(self) -> None:
        self.loader: DataLoader[Any] | None = None
        self.last: Any = None
        self.of_step: list[Any] = []
        self.loaded = 0
        self.is_plain = self.varies = False
        self._shapes: list[torch.Size | None] = []  # of the items of the last batch
        self._copies: deque[ref[torch.Tensor]] = deque(maxlen=4 * MAX_RECENT)
        self._recent: deque[tuple[list[Any], Any]] = deque(maxlen=MAX_RECENT)  # leaves, and where in a batch they are

    def load(self, batch: Any, in_training_thread: bool) -> None:
        """Note a batch that was handed out."""
        self.last = batch
        self.loaded += in_training_thread
        leaves, places = tree_flatten(batch)
        shapes = [leaf.shape[1:] if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
        self.varies |= bool(self._shapes) and shapes != self._shapes
        self._shapes = shapes
        self._recent.append(([_weak(leaf) for leaf in leaves], places))

    def use(self, tensor: torch.Tensor) -> None:
        """Note the batch that this tensor, or one with the same values, comes from."""
        for batch in reversed(tuple(self._recent)):
            if any(is_same(leaf(), tensor) for leaf in batch[0] if isinstance(leaf, ref)):
                if not any(batch is each for each in self.of_step):
                    self.of_step.append(batch)
                return

    def copy(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Note that the result has the values of the tensor, perhaps on another device."""
        if result is not tensor and self.is_loaded(tensor):
            self._copies.append(ref(result))

    def is_loaded(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is one of a batch that was handed out lately, or a copy of one."""
        leaves = (leaf for batch in tuple(self._recent) for leaf in batch[0] if isinstance(leaf, ref))
        return any(leaf() is tensor for leaf in (*leaves, *self._copies))

    def leaves(self) -> list[list[tuple[str, Any]]]:
        """Return copies of what is in each batch of this step, with names; None for what is gone, or cannot be kept."""
        used = self.of_step
        if not used and self.loaded == 1:
            used = [self._recent[-1]]
        return [list(zip(names_of(places), map(_kept, leaves), strict=True)) for leaves, places in used]

    def next_step(self) -> None:
        """Begin another step."""
        if self.of_step:
            self.is_plain = self.of_step[-1] is self._recent[-1]
        self.of_step, self.loaded = [], 0


def is_same(one: Any, other: torch.Tensor) -> bool:
    """Return whether two tensors are one, or have the same values."""
    if not isinstance(one, torch.Tensor) or one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.device == other.device and one.data_ptr() == other.data_ptr():
        return True
    return torch.equal(one.detach().to(other.device), other.detach())


def _weak(leaf: Any) -> Any:
    return ref(leaf) if isinstance(leaf, torch.Tensor) else leaf


def _kept(leaf: Any) -> Any:
    value = leaf() if isinstance(leaf, ref) else leaf
    if isinstance(value, torch.Tensor):
        return value.detach().as_subclass(torch.Tensor).clone()
    return value if isinstance(value, int | float | str) else None
