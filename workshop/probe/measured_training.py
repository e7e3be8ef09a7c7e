"""A training that is measured: what counts its steps, samples its stacks, and tries and watches causes in it.

In the stages that are only timed it changes nothing. In others, batches come from elsewhere, or something is tried on a
copy of the model, which needs its memory twice for a moment.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, IterDataPipe

from workshop.probe.activity import ActivityListener
from workshop.probe.backward_lines import BackwardLines
from workshop.probe.batch_meter import BatchMeter
from workshop.probe.cause import Moment
from workshop.probe.event_file import EventFile
from workshop.probe.hooks import TrainingHooks
from workshop.probe.hot_lines import HotLines
from workshop.probe.listener import Listener, tell
from workshop.probe.loader_hooks import LoaderHooks
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.memory.variables import attributes_of
from workshop.probe.messages import (
    LookCloser,
    MeasureOperators,
    SetStage,
    TryCauses,
    WatchedLine,
    WatchLines,
    WatchLoading,
)
from workshop.probe.model_calls import ModelCalls
from workshop.probe.noted_settings import loader_number, note_settings
from workshop.probe.observations import LoaderIterated
from workshop.probe.operator_meter import OperatorMeter
from workshop.probe.settings import ProbeConfig
from workshop.probe.stack_sampler import TrainingSampler
from workshop.probe.step_meter import StepMeter
from workshop.probe.trials import causes_at, tried_causes, watchers_for
from workshop.probe.trials.watcher import Watcher
from workshop.probe.whole_batches import singles_of


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


class LoaderNotes(Listener):
    """Notes a `LoaderIterated` at the beginning of each epoch."""

    def __init__(self, events: EventFile, loading: LoaderHooks) -> None:
        self._events, self._loading = events, loading

    def goes_on_in_fork(self) -> bool:
        """Go on in this process."""
        return True

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Note the settings of a DataLoader."""
        function = getattr(loader.collate_fn, "func", loader.collate_fn)  # of a functools.partial
        collate = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        self._events.write(
            LoaderIterated,
            loader=loader_number(loader),
            settings=LoaderSettings.of(loader),
            training=self._loading.is_of_training(loader_number(loader)),
            collate=(collate.co_name, collate.co_filename) if collate else ("", ""),
            batches=self._loading.epochs.length(loader),
            iterable=isinstance(loader.dataset, IterableDataset),
            shares_out=loader.worker_init_fn is not None or isinstance(loader.dataset, IterDataPipe),
            singles=singles_of(loader),
            dataset_state=state_of(loader.dataset),
        )


class StageWatchers(Listener):
    """Lets watchers hear of a stage, or of all of them, before all other listeners; of a compiled model, only some.

    Args:
        events: where they note what they find.
        hooks: what they are told by.
        models: the calls of models.
        step: returns the number of the present step.
    """

    def __init__(self, events: EventFile, hooks: TrainingHooks, models: ModelCalls, step: Callable[[], int]) -> None:
        self._events, self._hooks, self._models, self._step = events, hooks, models, step
        self._audience = hooks.audience
        self.goes_on_in_fork()

    def goes_on_in_fork(self) -> bool:
        """Begin in this process without any: those of the other one stay there."""
        self._watchers: list[Watcher] = []
        self._lasting: list[Watcher] = []
        return True

    def on_stage(self, stage: SetStage) -> None:
        """End the watchers of the stage before, and begin those of the next."""
        present = self._audience.listeners
        tell([each for each in self._watchers if each in present], "end")  # others have given up
        others = tuple(each for each in present if each not in self._watchers)
        if not self._lasting:
            lasting = causes_at(Moment.THROUGHOUT, self._models.is_compiled())
            self._lasting = self._begun(TryCauses(tuple(each.name for each in lasting)))
            others = (*self._lasting, *others)
        self._watchers = self._begun(self._of_compiled(stage) if self._models.is_compiled() else stage)
        self._audience.listeners = (*self._watchers, *others)

    def _of_compiled(self, stage: SetStage) -> SetStage:
        """The stage with the causes that are watched of compiled models, too."""
        causes = stage.causes if isinstance(stage, TryCauses) else ()
        return TryCauses(tuple(each for each in causes if tried_causes()[each].of_compiled))

    def _begun(self, stage: SetStage) -> list[Watcher]:
        """Those of a stage; what cuts backward passes comes last, as nothing is to be tried in anomaly mode."""
        begun: list[Watcher] = []
        try:
            begun += watchers_for(stage.causes, self._events) if isinstance(stage, TryCauses) else ()
            if isinstance(stage, LookCloser) and not self._models.anomaly_mode:
                begun.append(BackwardLines(self._events, self._step))
            if isinstance(stage, WatchLines):
                begun.append(HotLines(self._events, stage.lines))
            if isinstance(stage, MeasureOperators):
                begun.append(OperatorMeter(self._events, self._hooks.clock, stage.steps, stage.stacks))
            if isinstance(stage, WatchLoading):
                self._hooks.loading.loaders.watched = partial(_watched, self._events.folder, stage.lines, os.getpid())
        except Exception as error:
            self._events.lose(error)
        return begun


def _watched(folder: str, lines: tuple[WatchedLine, ...], trainer: int, batches: Iterator[Any]) -> Iterator[Any]:
    return HotLines(EventFile(folder, also_muted=True), lines, trainer).while_loading(batches)


def measured_training(config: ProbeConfig) -> ReportedTraining:
    """Return a training whose stacks are sampled, and in which causes are tried and watched."""
    training = ReportedTraining(config)
    events, hooks = training.events, training.hooks
    watchers = StageWatchers(events, hooks, training.models, lambda: training.meter.step)
    training.listen(before=(TrainingSampler(events, hooks.clock), watchers))
    return training


def measure(config: ProbeConfig) -> None:
    """Begin to measure the training of this process."""
    training = measured_training(config)
    note_settings(training.events)
    training.hooks.install()


def state_of(dataset: Any) -> str:
    """Return a digest of the plain attributes of a dataset, and of those that it wraps."""
    plain = sorted(
        (name, str(value)) for name, value in attributes_of(dataset) if type(value) in (bool, int, float, str)
    )
    return hashlib.blake2b(repr(plain).encode(), digest_size=8).hexdigest()
