"""Follows the tensors of a training, for `workshop memory`: puts together what listens to it."""

import os

from workshop.probe.listener import Listener
from workshop.probe.measured_training import ReportedTraining
from workshop.probe.memory.checkpoint_trial import CheckpointTrial
from workshop.probe.memory.failed_allocation import FailedAllocations
from workshop.probe.memory.memory_notes import SegmentName
from workshop.probe.memory.python_objects import AttributeCounts
from workshop.probe.memory.recorded_steps import RecordedSteps, StepEnds
from workshop.probe.memory.segments import Segments
from workshop.probe.memory.storage_lives import watch_sharing
from workshop.probe.memory.tensor_marks import TensorMarks
from workshop.probe.memory.validations import Validations
from workshop.probe.memory.wide_items import WideBatches
from workshop.probe.noted_settings import note_settings
from workshop.probe.settings import ProbeConfig


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
        self._wide = WideBatches(self.training.events)
        self._listen()

    def _listen(self) -> None:
        """Let everything begin that follows tensors."""
        training, loading = self.training, self.training.hooks.loading
        failures = FailedAllocations(training.hooks.audience)
        self.segments = failures.segments = Segments(training.events, failures.on_failure, self._config.every_step)
        self.steps = RecordedSteps(self.segments)
        training.listen(
            before=(self, failures, StepEnds(self.steps)),
            after=(
                CheckpointTrial(training.events, self.segments, training.models),
                TensorMarks(self.segments, loading, self._wide),
                Validations(self.segments, self.steps, loading),
                self.steps,
                self.objects,
            ),
        )

    def goes_on_in_fork(self) -> bool:
        """Follow the tensors of this process by themselves."""
        self._listen()
        return True

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
