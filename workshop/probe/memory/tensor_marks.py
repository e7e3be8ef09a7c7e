"""Marks the tensors of a recorded segment by what the training uses them for."""

from typing import Any

import torch
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader

from workshop.probe.backward_graph import roots_of, saved_by_graphs
from workshop.probe.batch_meter import measure_batch
from workshop.probe.internals import tree_leaves
from workshop.probe.listener import Listener
from workshop.probe.loader_hooks import LoaderHooks
from workshop.probe.memory.memory_notes import TensorKind
from workshop.probe.memory.segments import Segments
from workshop.probe.noted_settings import loader_number
from workshop.probe.optimizers import parameters_of


class TensorMarks(Listener):
    """Marks batches, activations, parameters, gradients and states of optimizers, and tells what graphs need."""

    def __init__(self, segments: Segments, loading: LoaderHooks) -> None:
        self._segments, self._loading = segments, loading

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Count the epochs of the training."""
        if self._loading.is_of_training(loader_number(loader)):
            self._segments.epochs += 1
            self._segments.look.epoch_begins(self._segments.steps)

    def on_batch(self, batch: Any) -> None:
        """Take a batch: workers have allocated it."""
        self._segments.batch = measure_batch(batch)
        if self._segments.name:
            self._take(tree_leaves(batch))

    def on_copy(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Take the copy of a batch."""
        life = self._segments.lives.find(tensor)
        if self._segments.name and life is not None and life.kind is TensorKind.BATCHES:
            self._take([result])

    def _take(self, tensors: list[Any]) -> None:
        lives = self._segments.lives
        stack = lives.stacks.here(1)
        for each in tensors:
            if isinstance(each, torch.Tensor):
                lives.adopt(each, stack, is_new=True)
        lives.mark(TensorKind.BATCHES, tensors)

    def on_backward(self, tensors: Any) -> None:
        """Mark what a graph keeps: it is complete."""
        segments = self._segments
        if segments.name:
            segments.mark_training()
            segments.lives.mark(TensorKind.ACTIVATIONS, saved_by_graphs(roots_of(tensors)))
            if segments.is_step():
                segments.unneeded.on_backward(roots_of(tensors))
            if segments.is_last:
                segments.look.look_at_backward()

    def after_backward(self) -> None:
        """Mark the gradients."""
        segments = self._segments
        if segments.name:
            segments.mark_training()
            if segments.is_step():
                segments.unneeded.after_backward(each for model in segments.models for each in model.parameters())

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Get to know an optimizer."""
        segments = self._segments
        if optimizer not in segments.optimizers:
            segments.optimizers.add(optimizer)
            segments.unneeded.know_optimizers()
        if segments.name:
            segments.mark_training()
            if segments.is_step():
                segments.unneeded.on_gradients(parameters_of(optimizer))

    def after_optimizer(self, optimizer: Optimizer) -> None:
        """Mark the optimizer's state."""
        if self._segments.name:
            self._segments.mark_training()
