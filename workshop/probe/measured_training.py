"""A training that is measured: what counts its steps, samples its stacks, and tries and watches causes in it.

In the stages that are only timed it changes nothing. In others, batches come from elsewhere, or something is tried on a
copy of the model, which needs its memory twice for a moment.
"""

from workshop.probe.activity import ActivityListener
from workshop.probe.batch_meter import BatchMeter
from workshop.probe.event_file import EventFile
from workshop.probe.hooks import TrainingHooks
from workshop.probe.listener import Listener
from workshop.probe.loader_notes import LoaderNotes
from workshop.probe.model_calls import ModelCalls
from workshop.probe.noted_settings import note_settings
from workshop.probe.settings import ProbeConfig
from workshop.probe.stack_sampler import TrainingSampler
from workshop.probe.stage_watchers import StageWatchers
from workshop.probe.step_meter import StepMeter


class ReportedTraining:
    """What each instrument listens to that has the steps of a training reported.

    Attributes:
        events: what is noted.
        hooks: the hooks into the training.
        models: the calls of models in it.
        meter: what reports the steps.
    """

    def __init__(self, config: ProbeConfig) -> None:
        self.events = EventFile(config.folder)
        self.hooks = TrainingHooks()
        self.models, batches = ModelCalls(self.hooks), BatchMeter(self.hooks)
        self.meter = StepMeter(config, self.hooks, self.models, batches)
        self._activity = ActivityListener(config.folder)
        self._notes = (LoaderNotes(self.events, self.hooks.loading), batches, self.models)

    def listen(self, *, before: tuple[Listener, ...] = (), after: tuple[Listener, ...] = ()) -> None:
        """Let listeners hear of everything, before it is counted and reported or after that."""
        self.hooks.audience.listeners = (*before, *self._notes, self.meter, *after, self._activity)


def measured_training(config: ProbeConfig) -> ReportedTraining:
    """Return a training whose stacks are sampled, and in which causes are tried and watched."""
    training = ReportedTraining(config)
    events, hooks = training.events, training.hooks
    watchers = StageWatchers(events, hooks.audience, training.models, lambda: training.meter.step)
    training.listen(before=(TrainingSampler(events, hooks.clock), watchers))
    return training


def measure(config: ProbeConfig) -> None:
    """Begin to measure the training of this process."""
    training = measured_training(config)
    note_settings(training.events)
    training.hooks.install()
