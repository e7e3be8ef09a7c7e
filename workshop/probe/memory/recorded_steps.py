"""Decides what is recorded: the first steps, later ones where it is cheap, one if it is asked for, and validations."""

from collections import deque
from statistics import median
from time import monotonic  # the script may replace that of the module
from typing import Any
from weakref import WeakSet

import torch
from torch import nn

from workshop.probe.backward_graph import saved_by_graphs
from workshop.probe.internals import tree_leaves
from workshop.probe.listener import Listener
from workshop.probe.loader_hooks import LoaderHooks
from workshop.probe.memory.memory_notes import MAX_VALIDATIONS, SegmentName, TensorKind
from workshop.probe.memory.segments import Segments
from workshop.probe.messages import LookForHolders, SetStage

MAX_OVERHEAD = 0.05
"""Share of the time, at most, that recorded steps take more than others."""

ALSO_RECORDED, MIN_PLAIN = (2, 3), 3
"""The steps that are recorded beside the first, and how many are not, at least, before the next, so that it is known
how long they take. Of two in a row, the second shows what is kept of the first; the allocator is not asked in it, as
scopes of the first may still be open."""

MIN_CALLS = 3
"""Calls of a model, at least, that are followed in each of the first validations."""

MAX_CALLS, LOOK_CALLS, MIN_SHARE_LEFT = 300, 5, 0.5
"""A validation is followed further, up to so many calls, as long as each call leaves this share of what a call leaves
on average: something keeps the graphs or the outputs of all of them. After `LOOK_CALLS`, it is looked for."""


class RecordedSteps(Listener):
    """Begins the segment of a step when the step before was reported.

    Attributes:
        is_last_wanted: whether the next recorded step is to be looked at whole.
        is_put_off: whether a step is recorded from its first forward pass on, as it has not begun to compute.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self.is_last_wanted = self.is_put_off = self._was_recorded = self._was_last = False
        self._plain_s = deque[float](maxlen=31)  # of the last steps that were not recorded
        self._next_s = self._ended_s = monotonic()

    def on_begin(self) -> None:
        """Begin to record the first step."""
        if self._segments.name is SegmentName.START:
            self._segments.end()
        self._segments.lives.step = 0
        self._segments.begin(SegmentName.TRAINING)

    def on_fault(self, fault: str) -> None:
        """Record nothing more: it would go on for ever, and take more and more memory."""
        self._segments.name = None
        self._segments.allocator.give_up()
        self._segments.lives.end()

    def on_stage(self, stage: SetStage) -> None:
        """Have one more step recorded, if holders are to be looked for in it."""
        self.is_last_wanted = isinstance(stage, LookForHolders)

    def put_off(self) -> None:
        """Record a step that has not begun to compute from its first forward pass on."""
        self._segments.leave()
        self._segments.lives.dead = []
        self.is_put_off = True
        self.is_last_wanted, self._segments.is_last = self._segments.is_last, False

    def go_on(self) -> None:
        """Record a step from its first forward pass on, if it was put off, or if every one is recorded."""
        if self._segments.every_step or self.is_put_off:
            self._segments.is_last = self.is_put_off and self.is_last_wanted
            self.is_put_off = self.is_last_wanted = False
            self._segments.begin(SegmentName.TRAINING)

    def end(self, steps: int) -> None:
        """End the segment of the steps that are over."""
        segments = self._segments
        self._was_recorded, self._was_last = segments.name is not None, segments.is_last
        self.is_put_off = False
        segments.steps += steps
        if self._was_recorded:
            segments.end()
        segments.look.step_ends()

    def on_step_end(self, steps: int) -> None:
        """Begin to record the next step, if it is due."""
        segments, now = self._segments, monotonic()
        if self._was_last or segments.steps <= ALSO_RECORDED[-1] + 1:  # no part of what is spent again and again
            self._next_s = now
        elif self._was_recorded:
            excess_s = now - self._ended_s - (median(self._plain_s) if self._plain_s else 0.0)
            self._next_s = now + max(excess_s, 0.0) / MAX_OVERHEAD
        else:
            self._plain_s.append((now - self._ended_s) / steps)
        self._ended_s = now
        segments.lives.step = segments.steps
        if segments.lives.fault is None and self._is_due(now):
            segments.is_last, self.is_last_wanted = self.is_last_wanted, False
            segments.begin(SegmentName.TRAINING, asks=not self._was_recorded)

    def _is_due(self, now: float) -> bool:
        if self._segments.every_step or self._segments.steps in ALSO_RECORDED:
            return True
        is_cheap = len(self._plain_s) >= MIN_PLAIN and now >= self._next_s
        return not self._was_recorded and (is_cheap or self.is_last_wanted)


class Validations(Listener):
    """Begins the segments of validations, and ends them: what one takes is no part of a step, nor the other way."""

    def __init__(self, segments: Segments, steps: RecordedSteps, loading: LoaderHooks) -> None:
        self._segments, self._steps, self._loading = segments, steps, loading
        self._seen_training: WeakSet[nn.Module] = WeakSet()
        self._count = self._calls = self._kept = 0
        self._trains_on_batch = False
        self._with_backward = set[int]()  # segments that ask for gradients: attacks, or a training in eval mode

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
