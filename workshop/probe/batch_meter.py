"""The batches and samples that steps train on, and how long the training waits for them."""

from collections import defaultdict
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from workshop.probe.hooks import TrainingHooks
from workshop.probe.internals import tree_leaves
from workshop.probe.listener import Listener
from workshop.probe.messages import BatchCounts
from workshop.probe.noted_settings import loader_number


class BatchMeter(Listener):
    """Counts them, from one report to the next."""

    def __init__(self, hooks: TrainingHooks) -> None:
        self._hooks = hooks
        self.goes_on_in_fork()

    def goes_on_in_fork(self) -> bool:
        """Begin to count in this process."""
        self._asked_s: float | None = None
        self._largest_copy, self._has_workers = 0, False
        self.clear()
        return True

    def clear(self) -> None:
        """Begin to count for the next report."""
        self._loaded = self._trained = self._epochs_begun = 0
        self._counts = BatchCounts()
        self._waits_s: defaultdict[int, float] = defaultdict(float)

    def take(self) -> dict[str, Any]:
        """Return what was counted, by the fields of a `StepReport`, and begin to count for the next one."""
        counts, store, loaders = self._counts, self._hooks.loading.batches, self._hooks.loading.loaders
        counts.kept, counts.from_memory, counts.with_workers = store.kept, store.replayed, loaders.given
        store.kept = store.replayed = loaders.given = 0
        taken = {
            "samples": self._loaded or self._trained,
            "batches": counts,
            "epochs_begun": self._epochs_begun,
            "waits_s": tuple(self._waits_s.items()),
            "failure": loaders.failure,
            "started_s": loaders.started_s,
        }
        loaders.started_s = 0.0
        self.clear()
        return taken

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Count an epoch of the training."""
        if self._hooks.loading.is_of_training(loader_number(loader)):
            self._epochs_begun += 1
            self._has_workers = loader.num_workers > 0

    def before_batch(self) -> None:
        """Begin to wait for a DataLoader."""
        self._asked_s = monotonic()

    def on_batch(self, batch: Any) -> None:
        """Count a batch."""
        loading, trains_here = self._hooks.loading, self._hooks.clock.is_training_thread()
        if self._asked_s is not None and trains_here and not loading.of_validation:
            self._waits_s[loading.asked] += monotonic() - self._asked_s
        self._asked_s = None
        self._counts.elsewhere += not trains_here
        if loading.of_validation:
            self._counts.validation += 1
            return
        samples, size = measure_batch(batch)
        self._counts.training += 1
        self._counts.bytes += size
        self._loaded += samples

    def on_copy(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Count what a GPU cannot fetch by itself, and tell of the largest."""
        if result.is_cuda and not tensor.is_cuda and not tensor.is_pinned():
            size = tensor.numel() * tensor.element_size()
            self._counts.pageable_bytes += size
            if size >= self._largest_copy:
                self._largest_copy = size
                self._hooks.audience.tell("on_pageable_copy", tensor, result.device, self._has_workers)

    def before_model(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float) -> None:
        """Count the samples that enter the first model: those of a loop without a DataLoader."""
        self._trained += measure_batch((inputs, options))[0]


def measure_batch(batch: Any) -> tuple[int, int]:
    """Return the length of the first tensor in a batch, 0 if there is none, and the size of all arrays in bytes."""
    length = size = 0
    for leaf in tree_leaves(batch):
        inside = [leaf] if isinstance(leaf, torch.Tensor) else tree_leaves(getattr(leaf, "__dict__", leaf))
        for array in inside:
            if not isinstance(array, torch.Tensor):
                size += getattr(array, "nbytes", 0)  # of a NumPy array
            elif array.ndim:
                length = length or len(array)
                size += array.numel() * array.element_size()
    return length, size
