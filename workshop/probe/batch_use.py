"""Which of the batches that DataLoaders have handed out a training step is taken with."""

from collections import deque
from typing import Any
from weakref import ref

import torch

from workshop.probe.internals import tree_map_with_names

MAX_RECENT = 8
"""A script may load this many batches ahead."""


class BatchUse:
    """Finds the batch that a tensor comes from: the input of a model, or the targets of a loss.

    Batches are not kept alive, but for the last one.

    Attributes:
        last: the batch that was handed out last.
        of_step: the batches that the present step was seen to use, as they were handed out.
        loaded: the number of batches handed out in this step to the thread that trains.
        is_plain: whether a step was seen to use the batch that was handed out last: the loop loads nothing ahead.
        varies: whether the items of one batch had another shape than those of the one before, as padded sentences do.
    """

    def __init__(self) -> None:
        self.last: Any = None
        self.of_step: list[Any] = []
        self.loaded = 0
        self.is_plain = self.varies = False
        self._shapes: dict[str, torch.Size] = {}  # of the items of the last batch
        self._recent: deque[list[tuple[str, Any]]] = deque(maxlen=MAX_RECENT)

    def load(self, batch: Any, in_training_thread: bool) -> None:
        """Note a batch that was handed out."""
        self.last = batch
        self.loaded += in_training_thread
        leaves: list[tuple[str, Any]] = []
        tree_map_with_names(lambda name, leaf: leaves.append((name, leaf)), batch)
        shapes = {name: leaf.shape[1:] for name, leaf in leaves if isinstance(leaf, torch.Tensor)}
        self.varies |= bool(self._shapes) and shapes != self._shapes
        self._shapes = shapes
        self._recent.append([(name, _weak(leaf)) for name, leaf in leaves])

    def use(self, tensor: torch.Tensor) -> None:
        """Note the batch that this tensor, or one with the same values, comes from."""
        for batch in reversed(self._recent):
            if any(is_same(leaf(), tensor) for _, leaf in batch if isinstance(leaf, ref)):
                if not any(batch is each for each in self.of_step):
                    self.of_step.append(batch)
                return

    def leaves(self) -> list[list[tuple[str, Any]]]:
        """Return copies of what is in each batch of this step, with names; None for what is gone, or cannot be kept."""
        used = self.of_step
        if not used and self.loaded == 1:
            used = [self._recent[-1]]
        return [[(name, _kept(leaf)) for name, leaf in batch] for batch in used]

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
