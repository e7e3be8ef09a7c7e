"""Which of the batches that DataLoaders have handed out a training step is taken with."""

import itertools
from collections import deque
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from torch.utils.data import DataLoader

from workshop.probe.internals import names_of, tree_flatten
from workshop.probe.item_addresses import Address

MAX_RECENT = 8
"""A script may load this many batches ahead."""


@dataclass
class _Batch:
    """A batch that was handed out."""

    number: int
    leaves: list[Any]
    places: Any
    """Where in the batch the leaves are."""
    address: Address | None

    @property
    def kind(self) -> list[Any]:
        """What it has in common with others from its dataset."""
        tensors = (leaf() if isinstance(leaf, ref) else None for leaf in self.leaves)
        return [None if each is None else (each.dtype, each.shape[1:]) for each in tensors]


class BatchUse:
    """Finds the batch that a tensor comes from: the input of a model, or the targets of a loss.

    Batches are not kept alive, but for the last one from each dataset, and those of a step that is recorded. Another
    thread may load batches meanwhile.

    Attributes:
        loader: the DataLoader of the training that began last.
        last: the batch that was handed out last.
        last_of: the same for each source, which is a number that stands for a dataset.
        kept: the batches of this step that are kept until it is over.
        of_step: the batches that the present step was seen to use, as they were handed out.
        loaded: the number of batches handed out in this step to the thread that trains.
        is_plain: whether a step was seen to use the batch that was handed out last: the loop loads nothing ahead.
        varies: whether the items of one batch had another shape than those of the one before from the same source, as
            padded sentences do.
    """

    def __init__(self) -> None:
        self.loader: DataLoader[Any] | None = None
        self.last: Any = None
        self.last_of: dict[int, Any] = {}
        self.kept: list[Any] = []
        self.of_step: list[_Batch] = []
        self.loaded = 0
        self.is_plain = self.varies = False
        self._shapes: dict[int, list[torch.Size | None]] = {}  # of the items of the last batch of each source
        self._copies: deque[ref[torch.Tensor]] = deque(maxlen=4 * MAX_RECENT)
        self._recent: deque[_Batch] = deque(maxlen=MAX_RECENT)
        self._number = itertools.count()

    def load(self, batch: Any, in_training_thread: bool, source: int = 0, address: Address | None = None) -> None:
        """Note a batch that was handed out."""
        self.last = self.last_of[source] = batch
        self.loaded += in_training_thread
        leaves, places = tree_flatten(batch)
        shapes = [leaf.shape[1:] if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
        self.varies |= shapes != self._shapes.setdefault(source, shapes)
        self._shapes[source] = shapes
        self._recent.append(_Batch(next(self._number), [_weak(leaf) for leaf in leaves], places, address))

    def load_meanwhile(self, batch: Any, source: int) -> None:
        """Note a batch that was handed out while recorded steps are taken: a loop that loads ahead gets its own."""
        if not self.is_plain:
            self.last = self.last_of[source] = batch

    def use(self, tensor: torch.Tensor, keeps: bool = False) -> None:
        """Note the batch that this tensor, or one with the same values, comes from; it `keeps` that for this step."""
        for batch in reversed(tuple(self._recent)):
            if any(is_same(leaf(), tensor) for leaf in batch.leaves if isinstance(leaf, ref)):
                if not _has(self.of_step, batch):
                    self.of_step.append(batch)
                    self.kept += [leaf() if isinstance(leaf, ref) else leaf for leaf in batch.leaves] * keeps
                return

    def copy(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Note that the result has the values of the tensor, perhaps on another device."""
        if result is not tensor and self.is_loaded(tensor):
            self._copies.append(ref(result))

    def is_loaded(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is one of a batch that was handed out lately, or a copy of one."""
        leaves = (leaf for batch in tuple(self._recent) for leaf in batch.leaves if isinstance(leaf, ref))
        return any(leaf() is tensor for leaf in (*leaves, *self._copies))

    def recorded(self) -> tuple[list[list[tuple[str, Any]]], list[Address | None]]:
        """Return copies of what is in each batch of this step, with names, and the address of each.

        A copy is None for what is gone, or cannot be kept. Batches are in the order in which they came. One that was
        not seen to be used, as where a loop joins pictures of two DataLoaders, is of the step if it came in it, and no
        other is like it.
        """
        came = list(self._recent)[-self.loaded :] if self.loaded else []
        used = list(self.of_step)
        if not used or any(_has(used, each) for each in came):
            unseen = [each for each in came if not _has(used, each)]
            kinds = [each.kind for each in (*used, *unseen)]
            used += [each for each in unseen if kinds.count(each.kind) == 1]
        used.sort(key=lambda each: each.number)
        leaves = [list(zip(names_of(each.places), map(_kept, each.leaves), strict=True)) for each in used]
        return leaves, [each.address for each in used]

    def next_step(self) -> None:
        """Begin another step."""
        if self.of_step:
            self.is_plain = _has(self.of_step, self._recent[-1])
        self.of_step, self.kept, self.loaded = [], [], 0


def is_same(one: Any, other: torch.Tensor) -> bool:
    """Return whether two tensors are one, or have the same values."""
    if not isinstance(one, torch.Tensor) or one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one is other:
        return True
    if one.layout != other.layout or one.is_nested or other.is_nested:
        return False
    if one.layout != torch.strided:
        return all(map(is_same, _parts(one), _parts(other)))
    if one.device == other.device and one.data_ptr() == other.data_ptr():
        return True
    return torch.equal(one.detach().to(other.device), other.detach())


def _parts(sparse: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the ordinary tensors that a sparse one consists of."""
    sparse = sparse.detach()
    if sparse.layout == torch.sparse_coo:
        return sparse.coalesce().indices(), sparse.coalesce().values()
    if sparse.layout in (torch.sparse_csr, torch.sparse_bsr):
        return sparse.crow_indices(), sparse.col_indices(), sparse.values()
    return sparse.ccol_indices(), sparse.row_indices(), sparse.values()


def _has(batches: list[_Batch], batch: _Batch) -> bool:
    return any(batch is each for each in batches)


def _weak(leaf: Any) -> Any:
    return ref(leaf) if isinstance(leaf, torch.Tensor) else leaf


def _kept(leaf: Any) -> Any:
    value = leaf() if isinstance(leaf, ref) else leaf
    if isinstance(value, torch.Tensor):
        return value.detach().as_subclass(torch.Tensor).clone()
    return value if isinstance(value, int | float | str) else None
