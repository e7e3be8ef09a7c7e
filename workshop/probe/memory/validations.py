"""Tells validations from steps, and records the first calls of some of them."""

from typing import Any
from weakref import WeakSet

import torch
from torch import nn

from workshop.probe.internals import tree_leaves
from workshop.probe.listener import Listener
from workshop.probe.loader_hooks import LoaderHooks
from workshop.probe.memory.inventory import saved_by_graphs
from workshop.probe.memory.memory_notes import MAX_VALIDATIONS, SegmentName, TensorKind
from workshop.probe.memory.recorded_steps import RecordedSteps
from workshop.probe.memory.segments import Segments

MIN_CALLS = 3
"""Calls of a model, at least, that are followed in each of the first validations."""

MAX_CALLS, LOOK_CALLS, MIN_SHARE_LEFT = 300, 5, 0.5
"""A validation is followed further, up to so many calls, as long as each call leaves this share of what a call leaves
on average: something keeps the graphs or the outputs of all of them. After `LOOK_CALLS`, it is looked for."""


class Validations(Listener):
    """Begins the segments of validations, and ends them: what one takes is no part of a step, nor the other way."""

    def __init__(self, segments: Segments, steps: RecordedSteps, loading: LoaderHooks) -> None:
        self._segments, self._steps, self._loading = segments, steps, loading
        self._seen_training: WeakSet[nn.Module] = WeakSet()
        self._count = self._calls = self._kept = 0
        self._trains_on_batch = False
        self._with_backward = set[
            int
        ]()  # the segments that ask for gradients, as an attack, or a training in eval mode

    def on_batch(self, batch: Any) -> None:
        """Nothing is trained on it yet."""
        self._trains_on_batch = False

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Begin a segment with the first call of a validation, or of the step after one."""
        if next(module.parameters(), None) is None:
            return  # as a loss function, which stays in training mode in a validation
        segments = self._segments
        segments.models.add(module)
        validates = self._validates(module)
        if segments.name is (SegmentName.TRAINING if validates else SegmentName.VALIDATION):
            if validates and not segments.has_forward and not segments.every_step:
                self._steps.put_off()  # it comes between two steps
            else:
                segments.end()
        segments.has_forward = True
        if segments.name is None and not validates:
            self._steps.go_on()
        elif segments.name is None and (self._count < MAX_VALIDATIONS or segments.every_step):
            self._begin()
        if validates and segments.name:
            self._note_call()

    def _validates(self, module: nn.Module) -> bool:
        """Whether a call validates: that of a model which was never trained, such as a teacher, does not."""
        if module.training:
            self._seen_training.add(module)
        only_asked = self._loading.only_validates and not torch.is_grad_enabled() and not self._trains_on_batch
        self._trains_on_batch = self._trains_on_batch or (module.training and torch.is_grad_enabled())
        is_known = module in self._seen_training and self._segments.steps > 0
        return is_known and (not module.training or only_asked)

    def _begin(self) -> None:
        self._count += 1
        self._calls = self._kept = 0
        self._segments.look.validation_begins()
        self._segments.begin(SegmentName.VALIDATION)

    def _note_call(self) -> None:
        number = self._segments.lives.segment
        if torch.is_grad_enabled() and number not in self._with_backward:
            self._segments.with_graph.add(number)
        self._segments.look.call_begins()

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """Mark what the graph of a validation keeps, and end the segment when enough was seen."""
        segments = self._segments
        if segments.name is not SegmentName.VALIDATION or module not in segments.models:
            return
        outputs = [each for each in tree_leaves(output) if isinstance(each, torch.Tensor)]
        segments.lives.mark(TensorKind.ACTIVATIONS, saved_by_graphs(outputs))
        piles_up = self._piles_up()
        if piles_up and self._calls == LOOK_CALLS and self._count == 1:
            segments.look.look_into_validation(self._calls)
        if self._calls >= MIN_CALLS and not (piles_up or segments.every_step):
            segments.end()

    def _piles_up(self) -> bool:
        """Count a call, and return whether it has left about as much as the others."""
        lives, before = self._segments.lives, self._kept
        self._calls += 1
        self._kept = sum(each.size for each in lives.alive.values() if each.segment == lives.segment)
        return self._kept - before > MIN_SHARE_LEFT * self._kept / self._calls and self._calls < MAX_CALLS

    def on_backward(self, tensors: Any) -> None:
        """A validation that asks for gradients needs its graph."""
        if self._segments.name is SegmentName.VALIDATION:
            self._with_backward.add(self._segments.lives.segment)
            self._segments.with_graph.discard(self._segments.lives.segment)
