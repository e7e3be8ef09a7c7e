"""Follows the tensors of a training, for `workshop memory`: puts together what listens to it."""

import os
import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch

from workshop.probe.audience import Audience
from workshop.probe.listener import Listener
from workshop.probe.measured_training import ReportedTraining
from workshop.probe.memory.checkpoint_trial import CheckpointTrial
from workshop.probe.memory.dataset_notes import AttributeCounts, WideBatches
from workshop.probe.memory.memory_notes import SegmentName
from workshop.probe.memory.recorded_steps import RecordedSteps, Validations
from workshop.probe.memory.segments import Segments
from workshop.probe.memory.storage_lives import watch_sharing
from workshop.probe.memory.tensor_marks import TensorMarks
from workshop.probe.noted_settings import note_settings
from workshop.probe.settings import ProbeConfig

NO_MEMORY = ("out of memory", "can't allocate memory", "Cannot allocate memory")


class MemoryMeter(Listener):
    """Has the steps reported, and a `MemorySegment` noted of each that is recorded.

    Attributes:
        training: what reports them.
        objects: the attributes of datasets with many Python objects.
        segments: what is recorded.
        steps: decides of which steps.
    """

    def __init__(self, config: ProbeConfig) -> None:
        self._config = config
        self.training = ReportedTraining(config)
        self.objects = AttributeCounts(self.training.events)
        self._wide = WideBatches(self.training.events, self.training.hooks.loading)
        self._listen()

    def _listen(self) -> None:
        """Let everything begin that follows tensors."""
        training, loading = self.training, self.training.hooks.loading
        failures = FailedAllocations(training.hooks.audience)
        self.segments = failures.segments = Segments(training.events, failures.on_failure, self._config.every_step)
        self.steps = RecordedSteps(self.segments)
        training.listen(
            before=(self, failures),
            after=(
                CheckpointTrial(training.events, self.segments, training.models),
                TensorMarks(self.segments, loading),
                self._wide,
                Validations(self.segments, self.steps, loading),
                self.steps,
                self.objects,
            ),
        )

    def goes_on_in_fork(self) -> bool:
        """Follow the tensors of this process by themselves."""
        self._listen()
        return True

    def on_step_end(self, steps: int) -> None:
        """End the segment of a step before the step is reported, as its end takes time, too."""
        self.steps.end(steps)

    def install(self) -> None:
        """Begin to watch, and to follow every tensor."""
        note_settings(self.training.events)
        self.training.hooks.install()
        self.segments.allocator.scopes.watch()
        self.segments.begin(SegmentName.START)
        os.register_at_fork(
            before=lambda: self.segments.allocator.give_up(),
            after_in_child=lambda: self.segments.lives.leave_fork(),
        )
        watch_sharing(lambda: self.segments.lives, self.training.hooks.audience)

    def leave_worker(self) -> None:
        """Follow nothing: this process is a DataLoader's worker."""
        self.segments.name = None
        self.segments.lives.leave_fork()


class FailedAllocations(Listener):
    """Has a segment noted when an allocation has failed, with what there was; once a step, in which others fail, too.

    Attributes:
        segments: what is recorded.
    """

    segments: Segments

    def __init__(self, audience: Audience) -> None:
        self._audience, self._pid, self._has_failed = audience, os.getpid(), False

    def on_begin(self) -> None:
        """Have it known when an exception ends the script."""
        watch_uncaught(self._on_uncaught)

    def on_step_end(self, steps: int) -> None:
        """Whatever has failed, the script goes on."""
        self._has_failed = False

    def on_failure(self, error: Exception) -> None:
        """Note what there is when an allocation has failed in a recorded step."""
        with self._audience:
            if self.segments.name not in (None, SegmentName.START) and self._is_new(error):
                self.segments.end(first_line(error))

    def _on_uncaught(self, error: BaseException, trace: TracebackType | None) -> None:
        """Note what there was when an allocation has failed in any other step, and ended the script."""
        with self._audience:
            if os.getpid() == self._pid and self._is_new(error):
                segments = self.segments
                segments.look.failed_frames = tuple(frame for frame, _ in traceback.walk_tb(trace))
                segments.name, segments.is_last = None, True
                segments.lives.step = segments.steps
                segments.begin(SegmentName.TRAINING)
                segments.end(first_line(error))

    def _is_new(self, error: BaseException) -> bool:
        if self._has_failed or not is_out_of_memory(error):
            return False
        self._has_failed = True
        return True


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception says that there is no memory left."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(each in str(error) for each in NO_MEMORY)


def first_line(error: BaseException) -> str:
    """Return what an exception says, as far as it is worth noting."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def watch_uncaught(note: Callable[[BaseException, TracebackType | None], None]) -> None:
    """Have each exception noted that ends the script, before that is printed."""
    original = sys.excepthook

    def noting(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        note(error, trace)
        return original(kind, error, trace)

    sys.excepthook = noting
