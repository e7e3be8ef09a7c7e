"""The stretches of a training that are recorded: a step, a validation, or what comes before the first step."""

import math
from collections.abc import Callable
from time import time_ns  # the script may replace that of the module
from weakref import WeakSet

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.event_file import EventFile
from workshop.probe.memory.allocator_events import AllocatorEvents
from workshop.probe.memory.holder_look import HolderLook
from workshop.probe.memory.memory_notes import FIRST_STEPS, LowerPeak, MemorySegment, SegmentName, TensorKind
from workshop.probe.memory.segment_table import SegmentTable
from workshop.probe.memory.storage_lives import Life, StorageLives
from workshop.probe.memory.unneeded import Unneeded
from workshop.probe.sharding import inner_optimizer

MAX_START = 30_000
"""Operators, at most, that are followed before the first step."""

MIN_BYTES = 1 << 16
"""Bytes, at least, by which the peak must be lower."""

OF_A_STEP = (TensorKind.ACTIVATIONS, TensorKind.OTHERS)
"""Batches are not among them: a loop over a DataLoader has the one before until the next is there."""


class Segments:
    """Begins and ends them, and notes a `MemorySegment` of each.

    Args:
        events: where they are noted.
        on_failure: called when an allocation has failed, with everything still there.
        every_step: all steps are recorded, and only what torch is seen to allocate counts.

    Attributes:
        lives: the storages.
        look: who holds them.
        name: of the present segment; None between two.
        is_last: whether it is looked for holders at its end.
        has_forward: whether a model was called in it.
        steps: the number of steps that are done.
        epochs: the number of epochs of the training that have begun.
        batch: the samples and the bytes of the last batch.
        models: those that were called.
        optimizers: those that were about to step.
        with_graph: the numbers of the segments that are validations and compute with gradients.
    """

    def __init__(self, events: EventFile, on_failure: Callable[[Exception], None], every_step: bool) -> None:
        self._events, self.every_step = events, every_step
        self.lives = StorageLives(on_failure)
        self.unneeded = Unneeded(self.lives)
        self.allocator = AllocatorEvents(events)
        self.look = HolderLook(events, self.lives)
        self.name: SegmentName | None = None
        self.is_last = self.has_forward = False
        self.steps = self.epochs = self._recorded = 0
        self.batch = (0, 0)
        self.models: WeakSet[nn.Module] = WeakSet()
        self.optimizers: WeakSet[Optimizer] = WeakSet()
        self.with_graph = set[int]()

    def begin(self, name: SegmentName, asks: bool = True) -> None:
        """Begin to record; `asks` the allocator, too."""
        self.name, self.has_forward = name, False
        self._begun_ns = time_ns()
        if name is not SegmentName.START:
            self.mark_training()
        if self.is_last or name is SegmentName.VALIDATION:
            self.look.take_in(self.is_last)
        self.lives.operations = 0
        self.unneeded.begin()
        self.lives.most_operations = MAX_START if name is SegmentName.START else math.inf
        self.lives.begin()
        if asks and name is not SegmentName.START and not self.every_step:
            self.allocator.begin()

    def end(self, failure: str = "") -> None:
        """Note what the segment has shown."""
        name, is_last = self.name, self.is_last
        allocated, ended_ns = self.leave(), time_ns()
        if self.lives.fault:
            raise self.lives.fault
        if name is None or name is SegmentName.START:
            return
        self.mark_training()
        if name is SegmentName.TRAINING and self.lives.step >= FIRST_STEPS:
            self._recorded += 1
        table = SegmentTable(self.lives, allocated, self._begun_ns, ended_ns)
        at_peak, at_end = table.rows_at_peak(), table.rows_at_end()
        if name is SegmentName.VALIDATION:
            at_peak = self.look.of_validation(at_peak)
        if is_last or failure:
            at_peak, at_end = self.look.of_step(at_peak, at_end, self.steps, bool(failure))
        self._events.write(
            MemorySegment,
            name=SegmentName.OUT_OF_MEMORY if failure else name,
            step=self.lives.step,
            devices=table.devices(),
            at_peak=at_peak,
            at_end=at_end,
            stacks=self.lives.stacks.take_new(),
            recorded_steps=self._recorded,
            epoch=self.epochs,
            is_last=is_last,
            failure=failure,
            freed=self._would_be_freed(name, table),
            samples=self.batch[0],
            batch_bytes=self.batch[1],
        )
        self.is_last = False
        self.lives.dead = []

    def leave(self) -> list[tuple[int, int]] | None:
        """Stop to record, and return what the allocator has said."""
        self.name = None
        allocated = self.allocator.end(self.lives.operations)
        self.lives.end()
        return allocated

    def is_step(self) -> bool:
        """Return whether this is a step of which it is of interest what its backward passes do not need."""
        is_capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        return self.name is SegmentName.TRAINING and not self.every_step and not is_capturing

    def mark_training(self) -> None:
        """Mark what belongs to the models and the optimizers."""
        mark, parameters = self.lives.mark, list[nn.Parameter]()
        for model in self.models:
            parameters += model.parameters()
            mark(TensorKind.PARAMETERS, model.buffers())
        for each in self.optimizers:
            optimizer = inner_optimizer(each)
            parameters += (parameter for group in optimizer.param_groups for parameter in group["params"])
            states = (state.values() for state in optimizer.state.values() if isinstance(state, dict))
            mark(
                TensorKind.OPTIMIZER, (value for state in states for value in state if isinstance(value, torch.Tensor))
            )
        mark(TensorKind.PARAMETERS, parameters)
        mark(TensorKind.GRADIENTS, (each.grad for each in parameters if each.grad is not None))

    def _would_be_freed(self, name: SegmentName, table: SegmentTable) -> list[LowerPeak]:
        """By how many bytes the peak of each device would be lower without what need not be there, by the cause."""
        found = list[LowerPeak]()

        def without(cause: str, device: str, some: list[Life], stack: int | None = None) -> None:
            if stack is None:
                stack = max(some, key=lambda each: each.size).stack if some else -1
            found.append(LowerPeak(cause, device, table.saved_without(device, some), stack))

        for device in table.peaks:
            for cause, some, stack in self.unneeded.of_device(device):
                without(cause, device, some, stack)
            if name is SegmentName.TRAINING:
                without("gradients-kept", device, table.select(device, self._is_gradient_of_before), -1)
                without("kept-into-next-step", device, table.select(device, self._is_of_last_step))
            # What graphs of this validation have made, or of an earlier one, if it is still there; not their inputs.
            without("validation-graph", device, table.select(device, self._is_of_graph))
        return [each for each in found if each.bytes > MIN_BYTES]

    def _is_gradient_of_before(self, life: Life) -> bool:
        return life.kind is TensorKind.GRADIENTS and life.segment != self.lives.segment

    def _is_of_graph(self, life: Life) -> bool:
        return life.kind is TensorKind.ACTIVATIONS and life.segment in self.with_graph

    def _is_of_last_step(self, life: Life) -> bool:
        """Whether the step before has made it, and this one has let it go: what stays longer is no part of this."""
        is_of_last = life.segment != self.lives.segment and 0 <= life.step == self.lives.step - 1
        return life.kind in OF_A_STEP and is_of_last and life.died_ns > 0
