"""Follows the tensors of a training, for `workshop memory`: in its first steps, and in later ones where it is cheap."""

import math
import os
import traceback
from bisect import bisect
from statistics import median
from time import monotonic, time_ns  # the script may replace those of the module
from types import TracebackType
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader

from workshop.probe.backward_graph import roots_of
from workshop.probe.internals import sequence_number, tree_leaves
from workshop.probe.memory.allocator_events import AllocatorEvents
from workshop.probe.memory.checkpoint_trial import NAME, try_checkpoints
from workshop.probe.memory.failed_allocation import first_line, is_out_of_memory, watch_uncaught
from workshop.probe.memory.host_objects import note_host_objects
from workshop.probe.memory.inventory import adopt_unseen, saved_by_graphs
from workshop.probe.memory.memory_notes import (
    MAX_VALIDATIONS,
    MemorySegment,
    OldGraph,
    SegmentName,
    TensorKind,
    TensorRow,
)
from workshop.probe.memory.process_memory import noting_own_pages
from workshop.probe.memory.python_objects import AttributeCounts, note_touched
from workshop.probe.memory.segment_table import FIRST_STEPS, SegmentTable
from workshop.probe.memory.shared_storages import watch_sharing
from workshop.probe.memory.storage_lives import UNSEEN, Life, StorageLives
from workshop.probe.memory.tensor_holders import TensorHolders
from workshop.probe.memory.unneeded import Unneeded
from workshop.probe.memory.wide_items import WideBatches
from workshop.probe.memory.would_be_freed import would_be_freed
from workshop.probe.messages import SetStage
from workshop.probe.noted_settings import loader_number
from workshop.probe.optimizers import parameters_of
from workshop.probe.settings import ProbeConfig
from workshop.probe.sharding import inner_optimizer
from workshop.probe.step_meter import StepMeter, measure_batch

MAX_OVERHEAD = 0.05
"""Recorded steps may take so much of the time more than others."""

ALSO_RECORDED, THEN_PLAIN = (2, 3), 3
"""The first step is recorded and these, and so many are not, to know how long they take. Of two in a row, the second
one shows what is kept of the first; the allocator is not asked in it, as scopes of the first may still be open."""

RECENT = 3
"""Graphs of so many steps may be there because a variable still has the result, or a step has several optimizers."""

MAX_START = 30_000
"""After so many operators, what goes on before the first step is followed no longer."""

JUST_OVER = 2
"""So many steps, or calls in a validation, may still have something in a variable that each of them assigns anew: the
present one and the one before."""

VALIDATION_CALLS = 3
"""So many calls of a model are followed in each of the first validations."""

MAX_CALLS = 300
LOOK_CALLS = 5
PILES_UP = 0.5
"""A validation is followed further, up to so many calls, as long as each call leaves this share of what one usually
leaves: something keeps the graphs or the outputs of all of them. After `LOOK_CALLS`, it is looked for."""


class MemoryMeter(StepMeter):
    """Counts and times steps as `StepMeter` does, and notes a `MemorySegment` of each step that it records."""

    def __init__(self, config: ProbeConfig) -> None:
        super().__init__(config)
        self.objects = AttributeCounts(self.events)
        self.wide = WideBatches(self.events)

    def begin(self) -> None:
        """Begin to measure in this process."""
        super().begin()
        self.lives = StorageLives(self._on_failure)
        self.unneeded = Unneeded(self.lives)
        self.allocator = AllocatorEvents(self.events)
        self.segment: SegmentName | None = None
        self.models: WeakSet[nn.Module] = WeakSet()
        self.seen_training: WeakSet[nn.Module] = WeakSet()
        self.optimizers: WeakSet[Optimizer] = WeakSet()
        self.steps_done = self.recorded = self.followed_calls = self.validations = self.epochs = self.kept = 0
        self.epoch_began = self.epoch_sequence = 0  # the step and the node of a graph with which the epoch began
        self.plain_s: list[float] = []
        self.calls_ns, self.call_sequences = list[int](), list[int]()  # when each call of a validation began
        self.step_sequences = list[int]()  # the number of the next node of a graph as each step ended
        self.next_s = self.begun_s = self.ended_s = monotonic()
        self.is_last_wanted = self.is_last = self.failed = False
        self.with_graph = set[int]()  # the segments that are validations and compute with gradients
        self.with_backward = set[int]()  # those that also ask for gradients, as an attack, or a training in eval mode
        self.tries_checkpoints = self.has_forward = self.is_put_off = self.trains_on_batch = False
        self.batch_samples = self.batch_bytes = 0
        self.old_ends = list[int]()
        self.holders: TensorHolders | None = None

    def install(self) -> None:
        """Begin to watch, and to follow every tensor."""
        super().install()
        self.allocator.scopes.watch()
        self._begin_segment(SegmentName.START)
        os.register_at_fork(
            before=lambda: self.allocator.give_up(),
            after_in_child=lambda: self.lives.leave_fork(),
        )
        watch_sharing(lambda: self.lives, self.hooks.audience)

    def leave_worker(self) -> None:
        """Follow nothing: this process is a DataLoader's worker."""
        self.segment = None
        self.lives.leave_fork()

    def on_begin(self) -> None:
        """The first step begins; no stacks are sampled."""
        if self.segment is SegmentName.START:
            self._end_segment()
        self.lives.step = 0
        self._begin_segment(SegmentName.TRAINING)
        watch_uncaught(self._on_uncaught)

    def set_stage(self, message: SetStage) -> None:
        """Go on to another stage: "holders" wants one more step to be recorded, with all that is known of it."""
        super().set_stage(message)
        self.is_last_wanted = message.stage == "holders"
        self.tries_checkpoints = message.stage == NAME
        if message.stage == "touch":
            for loader, name, value in self.objects.present():
                note_touched(loader, name, value, self.events)

    # What happens in the script

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Count what the dataset holds, if workers are about to share it."""
        super().on_loader_start(loader)
        if self.hooks.loading.is_of_training(loader_number(loader)):
            self.epochs += 1
            self.epoch_began, self.epoch_sequence = self.steps_done, _sequence_now()
        self.objects.on_loader_start(loader)
        self.wide.on_loader_start(loader, loader_number(loader))

    def on_batch(self, batch: Any) -> None:
        """Take a batch: workers have allocated it."""
        super().on_batch(batch)
        self.trains_on_batch = False
        self.batch_samples, self.batch_bytes = measure_batch(batch)
        if self.segment:
            self._take(TensorKind.BATCHES, tree_leaves(batch))
            self.wide.on_batch(batch, self.hooks.loading.asked)

    def on_copy(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Take the copy of a batch."""
        super().on_copy(tensor, result)
        life = self.lives.find(tensor)
        if self.segment and life is not None and life.kind is TensorKind.BATCHES:
            self._take(TensorKind.BATCHES, [result])

    def _take(self, kind: TensorKind, tensors: list[Any]) -> None:
        stack = self.lives.stacks.here(1)
        for each in tensors:
            if isinstance(each, torch.Tensor):
                self.lives.adopt(each, stack, is_new=True)
        self.lives.mark(kind, tensors)

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Follow the first calls of a validation."""
        super().before_forward(module, inputs, options)
        tries = self.tries_checkpoints and self.segment is None  # its copies are no part of a recorded step
        if tries and module is self.model and torch.is_grad_enabled() and not self.compiled():
            self.tries_checkpoints = False
            try_checkpoints(module, inputs, options, self.events)
        if next(module.parameters(), None) is None:
            return  # as a loss function, which stays in training mode in a validation
        self.models.add(module)
        if module.training:
            self.seen_training.add(module)
        is_teacher = module not in self.seen_training
        only_asked = self.hooks.loading.only_validates and not torch.is_grad_enabled() and not self.trains_on_batch
        validates = not is_teacher and self.steps_done > 0 and (not module.training or only_asked)
        self.trains_on_batch = self.trains_on_batch or (module.training and torch.is_grad_enabled())
        if self.segment is (SegmentName.TRAINING if validates else SegmentName.VALIDATION):
            if validates and not self.has_forward and not self.config.every_step:
                self._put_off()  # it comes between two steps
            else:
                self._end_segment()  # what a validation takes is no part of a step, nor the other way round
        self.has_forward = True
        if validates and self.segment is None and (self.validations < MAX_VALIDATIONS or self.config.every_step):
            self.validations += 1
            self.followed_calls = self.kept = 0
            self.calls_ns, self.call_sequences = [], []
            self._begin_segment(SegmentName.VALIDATION)
        elif self.segment is None and not validates and (self.config.every_step or self.is_put_off):
            self.is_last, self.is_last_wanted = self.is_put_off and self.is_last_wanted, False
            self.is_put_off = False
            self._begin_segment(SegmentName.TRAINING)
        if validates and self.segment and torch.is_grad_enabled() and self.lives.segment not in self.with_backward:
            self.with_graph.add(self.lives.segment)
        if validates and self.segment:
            self.calls_ns.append(time_ns())
            self.call_sequences.append(_sequence_now())

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """Mark what the graph of a validation keeps."""
        super().after_forward(module, output)
        if self.segment is SegmentName.VALIDATION and module in self.models:
            outputs = [each for each in tree_leaves(output) if isinstance(each, torch.Tensor)]
            self.lives.mark(TensorKind.ACTIVATIONS, saved_by_graphs(outputs))
            self.followed_calls += 1
            before = self.kept
            self.kept = sum(each.size for each in self.lives.alive.values() if each.segment == self.lives.segment)
            usual = self.kept / self.followed_calls
            piles_up = self.kept - before > PILES_UP * usual and self.followed_calls < MAX_CALLS
            if piles_up and self.followed_calls == LOOK_CALLS and self.validations == 1:
                self._look_into_validation()
            if self.followed_calls >= VALIDATION_CALLS and not (piles_up or self.config.every_step):
                self._end_segment()

    def _look_into_validation(self) -> None:
        """Look for who holds what the calls before have left."""
        with noting_own_pages(self.events):
            self.holders = TensorHolders(self.lives, self._left_by_call, self.call_sequences[1 : 1 - JUST_OVER])
        for each in self.holders.old_graphs:
            self.events.write(OldGraph, **each, steps=self.followed_calls, validation=True)

    def on_backward(self, tensors: Any) -> None:
        """Mark what a graph keeps: it is complete."""
        super().on_backward(tensors)
        if self.segment is SegmentName.VALIDATION:
            self.with_backward.add(self.lives.segment)
            self.with_graph.discard(self.lives.segment)
        if self.segment:
            self._mark_training()
            self.lives.mark(TensorKind.ACTIVATIONS, saved_by_graphs(roots_of(tensors)))
            if self._looks_at_graphs():
                self.unneeded.on_backward(roots_of(tensors))
            if self.is_last:
                with noting_own_pages(self.events):
                    self.holders = TensorHolders(self.lives, self._left_by_step, self.old_ends)

    def after_backward(self) -> None:
        """Mark the gradients."""
        super().after_backward()
        if self.segment:
            self._mark_training()
            if self._looks_at_graphs():
                self.unneeded.after_backward(each for model in self.models for each in model.parameters())

    def _looks_at_graphs(self) -> bool:
        """Whether it is of interest what a backward pass does not need."""
        is_capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        return self.segment is SegmentName.TRAINING and not self.config.every_step and not is_capturing

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Get to know an optimizer."""
        super().before_optimizer(optimizer)
        if optimizer not in self.optimizers:
            self.optimizers.add(optimizer)
            self.unneeded.know_optimizers()
        if self.segment:
            self._mark_training()
            if self._looks_at_graphs():
                self.unneeded.on_gradients(parameters_of(optimizer))

    def after_optimizer(self, optimizer: Optimizer) -> None:
        """Mark the optimizer's state."""
        super().after_optimizer(optimizer)
        if self.segment:
            self._mark_training()

    def on_step_end(self, steps: int) -> None:
        """End the segment of a step, or begin one."""
        recorded, was_last = self.segment is not None, self.is_last
        self.is_put_off = False
        self.failed = False  # whatever has failed, the script goes on
        self.steps_done += steps
        if recorded:
            self._end_segment()
        self.step_sequences.append(_sequence_now())
        super().on_step_end(steps)
        now = monotonic()
        if was_last or self.steps_done <= ALSO_RECORDED[-1] + 1:  # it is no part of what is spent again and again
            self.next_s = now
        elif recorded:
            excess_s = now - self.ended_s - (median(self.plain_s) if self.plain_s else 0.0)
            self.next_s = now + max(excess_s, 0.0) / MAX_OVERHEAD
        else:
            self.plain_s = [*self.plain_s[-30:], (now - self.ended_s) / steps]
        self.ended_s = now
        self.lives.step = self.steps_done
        is_first = self.steps_done in ALSO_RECORDED
        is_due = len(self.plain_s) >= THEN_PLAIN and now >= self.next_s and not recorded
        if self.lives.fault is None and (
            self.config.every_step or is_first or is_due or (self.is_last_wanted and not recorded)
        ):
            self.is_last, self.is_last_wanted = self.is_last_wanted, False
            self._begin_segment(SegmentName.TRAINING, asks=not recorded)

    # Segments

    def _begin_segment(self, name: SegmentName, asks: bool = True) -> None:
        self.segment, self.has_forward = name, False
        self.begun_ns = time_ns()
        if name is not SegmentName.START:
            self._mark_training()
        if self.is_last or name is SegmentName.VALIDATION:
            with noting_own_pages(self.events):
                adopt_unseen(self.lives)
        if self.is_last:
            self.old_ends = self.step_sequences[:-RECENT]
        self.lives.operations = 0
        self.unneeded.begin()
        self.lives.most_operations = MAX_START if name is SegmentName.START else math.inf
        self.lives.begin()
        if asks and name is not SegmentName.START and not self.config.every_step:
            self.allocator.begin()

    def _end_segment(self, failure: str = "") -> None:
        """Note what the segment has shown."""
        name, self.segment = self.segment, None
        allocated = self.allocator.end(self.lives.operations)
        ended_ns = time_ns()
        self.lives.end()
        if self.lives.fault:
            raise self.lives.fault
        if name is None or name is SegmentName.START:
            return
        self._mark_training()
        if name is SegmentName.TRAINING and self.lives.step >= FIRST_STEPS:
            self.recorded += 1
        table = SegmentTable(self.lives, allocated, self.begun_ns, ended_ns)
        at_peak, at_end = table.rows_at_peak(), table.rows_at_end()
        if name is SegmentName.VALIDATION and self.holders:
            at_peak, self.holders = self.holders.with_holders(at_peak), None
        if self.is_last or failure:
            with noting_own_pages(self.events):
                at_peak, at_end = self._look(at_peak, at_end, failure)
        self.events.write(
            MemorySegment,
            name=SegmentName.OUT_OF_MEMORY if failure else name,
            step=self.lives.step,
            devices=table.devices(),
            at_peak=at_peak,
            at_end=at_end,
            stacks=self.lives.stacks.take_new(),
            recorded_steps=self.recorded,
            epoch=self.epochs,
            is_last=self.is_last,
            failure=failure,
            freed=would_be_freed(name, table, self.lives, self.unneeded, self.with_graph),
            batch_bytes=self.batch_bytes,
            samples=self.batch_samples,
        )
        self.is_last = False
        self.lives.dead = []

    def _look(self, at_peak: list[TensorRow], at_end: list[TensorRow], failure: str) -> tuple[list[TensorRow], ...]:
        """Note who holds what there is, and return rows with their holders."""
        frames = self._failed_frames
        of_end = TensorHolders(self.lives, self._left_by_step, self.old_ends, frames, self.epoch_sequence)
        of_peak, self.holders = (of_end if failure or not self.holders else self.holders), None
        for each in of_end.old_graphs:
            steps = self.steps_done - self.epoch_began
            self.events.write(OldGraph, **each, steps=self.steps_done, epoch_steps=steps)
        note_host_objects(self.steps_done, self.events)
        return of_peak.with_holders(at_peak), of_end.with_holders(at_end)

    def _left_by_step(self, life: Life) -> int | None:
        """The step that has left a storage, if it is over for long enough that no variable of a loop has it."""
        if life.segment == 0:
            return UNSEEN if life.step >= FIRST_STEPS else None
        return life.step if FIRST_STEPS <= life.step <= self.lives.step - JUST_OVER else None

    def _left_by_call(self, life: Life) -> int | None:
        """The same of a call of the model in this validation."""
        call = bisect(self.calls_ns, life.born_ns)
        return call if life.segment == self.lives.segment and call <= len(self.calls_ns) - JUST_OVER else None

    def _put_off(self) -> None:
        """Record a step that has not begun to compute from its first forward pass on."""
        self.segment, self.is_put_off = None, True
        self.allocator.end(self.lives.operations)
        self.lives.end()
        self.lives.dead = []
        self.is_last_wanted, self.is_last = self.is_last, False

    def _mark_training(self) -> None:
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

    # Allocations that fail

    _failed_frames: tuple[Any, ...] = ()

    def _on_failure(self, error: Exception) -> None:
        """Note what there is when an allocation has failed in a recorded step."""
        is_recorded = self.segment not in (None, SegmentName.START)
        if is_recorded and not self.failed and is_out_of_memory(error):
            self.failed = True
            with self.hooks.audience:
                self._end_segment(first_line(error))

    def _on_uncaught(self, error: BaseException, trace: TracebackType | None) -> None:
        """Note what there was when an allocation has failed in any other step, and ended the script."""
        if os.getpid() == self._pid and is_out_of_memory(error) and not self.failed:
            self.failed = True
            with self.hooks.audience:
                self._failed_frames = tuple(frame for frame, _ in traceback.walk_tb(trace))
                self.segment, self.is_last = None, True
                self.lives.step = self.steps_done
                self._begin_segment(SegmentName.TRAINING)
                self._end_segment(first_line(error))


def _sequence_now() -> int:
    """The number that the next node of a graph gets."""
    with torch.enable_grad():
        return sequence_number((torch.zeros(1, requires_grad=True) * 1).grad_fn)
