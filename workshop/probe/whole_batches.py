"""Batches that are taken out of tensors in memory at once, where they are put together from single samples."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from workshop.probe.internals import tree_leaves
from workshop.probe.memory.variables import attributes_of


def singles_of(loader: DataLoader[Any]) -> int:
    """Return the number of single samples of a batch, if a dataset in memory may have it at once; else 0."""
    size = getattr(loader.batch_sampler, "batch_size", 0) if loader.batch_sampler is not None else 0
    if not size or size < 2 or isinstance(loader.dataset, IterableDataset):
        return 0
    return int(size) if _is_in_memory(loader.dataset) else 0


def _is_in_memory(dataset: Dataset[Any]) -> bool:
    """Whether a dataset is one of tensors, or it, or one that it wraps, holds an array with a row for each sample."""
    inner = dataset
    while type(inner) is Subset:
        inner = inner.dataset
    if type(inner) is TensorDataset:
        return True
    try:
        length = len(dataset)
    except Exception:  # it may have none, or fail to say it
        return False
    return any(
        isinstance(value, torch.Tensor) or getattr(getattr(value, "dtype", None), "kind", "") in (*"biufc",)
        for _, value in attributes_of(dataset)
        if getattr(value, "ndim", 0) and len(value) == length
    )


def take_at_once(loader: DataLoader[Any]) -> None:
    """Let a copy of a DataLoader take each batch out of its dataset at once."""
    whole = _WholeBatches(loader.dataset, loader.collate_fn)
    loader.__dict__.update(dataset=whole, collate_fn=_as_it_is)


class _WholeBatches:
    """A dataset that is asked for batches; the first one must be as it was put together before."""

    def __init__(self, dataset: Dataset[Any], collate: Callable[[list[Any]], Any]) -> None:
        self._dataset, self._collate = dataset, collate
        self._is_checked = False

    def __getitems__(self, indices: list[int]) -> Any:
        """Return a whole batch.

        Raises:
            ValueError: it is another one than that of single samples.
        """
        batch = self._dataset[indices]
        if not self._is_checked:
            self._is_checked = True
            if not _are_same(batch, self._collate([self._dataset[index] for index in indices])):
                raise ValueError("a batch that is taken at once is another one")
        return list(batch)


def _as_it_is(batch: Any) -> Any:
    return batch


def _are_same(one: Any, other: Any) -> bool:
    both = tree_leaves(one), tree_leaves(other)
    return len(both[0]) == len(both[1]) and all(map(torch.equal, *both))
