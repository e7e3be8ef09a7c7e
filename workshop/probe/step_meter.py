"""Times the steps of a training, for `workshop measure`, and notes what its threads do.

In the stages that are only timed it changes nothing. In others, batches come from elsewhere, or something is tried on a
copy of the model, which needs its memory twice for a moment.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch
from torch import distributed, nn
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader, IterableDataset, IterDataPipe

from workshop.probe.activity import ActivityListener
from workshop.probe.backward_lines import BackwardLines
from workshop.probe.connection import Connection, connect
from workshop.probe.event_file import EventFile
from workshop.probe.hooks import TrainingHooks
from workshop.probe.internals import is_compiled, tree_leaves
from workshop.probe.listener import Listener
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.log import log
from workshop.probe.memory.variables import attributes_of
from workshop.probe.messages import BatchCounts, Circumstances, ProbeFault, SetStage, StepReport, StepUnit
from workshop.probe.model_hooks import is_trained
from workshop.probe.noted_settings import loader_number, note_settings
from workshop.probe.observations import LoaderIterated, Role
from workshop.probe.phases import Phase
from workshop.probe.process_end import at_process_end
from workshop.probe.settings import ProbeConfig
from workshop.probe.stack_sampler import StackSampler
from workshop.probe.trials import watchers_for
from workshop.probe.trials.kept_graphs import GraphLives
from workshop.probe.trials.watcher import Watcher
from workshop.probe.whole_batches import singles_of

REPORT_EVERY_S = 0.05
"""Steps shorter than this are reported together: reporting costs time, too."""


PLAIN = (bool, int, float, str)


class StepMeter(Listener):
    """Sends a report of each step, or of some short ones, and notes the stacks of its threads in a file."""

    def __init__(self, config: ProbeConfig) -> None:
        self.config = config
        self.forked = False
        self.events = EventFile(config.folder)
        self.hooks = TrainingHooks(self, ActivityListener(config.folder))
        self.begin()

    def begin(self) -> None:
        """Begin to measure in this process."""
        clock = self.hooks.clock
        self.parent: Connection | None = None
        self.sampler = StackSampler(self.events, lambda: (clock.thread, Role.TRAINING, str(clock.counted_phase)))
        self.backward_lines = BackwardLines(self.events)
        self.watchers: list[Watcher] = []
        self.graphs: GraphLives | None = None
        self.stage = "warm-up"
        self.unit = StepUnit.OPTIMIZER
        self._pid = os.getpid()
        self.own_threads = 0  # while others are tried
        self.anomaly_mode = False
        self.model: nn.Module | None = None
        self.reported_s = self.stepped_s = self.backward_s = monotonic()
        self.asked_s: float | None = None
        self.first_step = self.called = self.calls = self.validated = self.largest_copy = 0
        self.has_workers = False
        self.clear()

    def install(self) -> None:
        """Begin to watch."""
        note_settings(self.events)
        self.hooks.install()

    def on_begin(self) -> None:
        """Begin to sample this process; one that only loads for another has a sampler of its own."""
        self.sampler.start()
        at_process_end(self.end)

    def goes_on_in_fork(self) -> bool:
        """Measure this process by itself."""
        self.begin()
        self.forked = True
        return True

    def on_fault(self, fault: str) -> None:
        """Tell the process that measures why there will be no more reports."""
        if self.parent:
            self.parent.send(ProbeFault(fault))

    def clear(self) -> None:
        """Begin to count for the next report."""
        self.durations_us: list[int] = []
        self.backwards_s: list[float] = []
        self.forwards: list[int] = []
        self.loaded = self.trained = self.epochs_begun = 0
        self.batches = BatchCounts()
        self.waits_s: defaultdict[int, float] = defaultdict(float)

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Note the settings of a DataLoader, and that an epoch begins."""
        of_training = self.hooks.loading.is_of_training(loader_number(loader))
        self.epochs_begun += of_training
        self.has_workers = loader.num_workers > 0 if of_training else self.has_workers
        function = getattr(loader.collate_fn, "func", loader.collate_fn)  # of a functools.partial
        collate = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        self.events.write(
            LoaderIterated,
            loader=loader_number(loader),
            settings=LoaderSettings.of(loader),
            training=of_training,
            collate=(collate.co_name, collate.co_filename) if collate else ("", ""),
            batches=self.hooks.loading.epochs.length(loader),
            iterable=isinstance(loader.dataset, IterableDataset),
            shares_out=loader.worker_init_fn is not None or isinstance(loader.dataset, IterDataPipe),
            singles=singles_of(loader),
            dataset_state=state_of(loader.dataset),
        )

    def before_batch(self) -> None:
        """Begin to wait for a DataLoader."""
        self.asked_s = monotonic()

    def on_batch(self, batch: Any) -> None:
        """Count a batch."""
        loading = self.hooks.loading
        if self.asked_s is not None and self.hooks.clock.is_training_thread() and not loading.of_validation:
            self.waits_s[loading.asked] += monotonic() - self.asked_s
        self.asked_s = None
        self.batches.elsewhere += not self.hooks.clock.is_training_thread()
        if not loading.of_validation:
            samples, size = measure_batch(batch)
            self.batches.training += 1
            self.batches.bytes += size
            self.loaded += samples
        else:
            self.batches.validation += 1

    def on_copy(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Count what a GPU cannot fetch by itself."""
        if result.is_cuda and not tensor.is_cuda and not tensor.is_pinned():
            size = tensor.numel() * tensor.element_size()
            self.batches.pageable_bytes += size
            self.largest_copy = max(self.largest_copy, size)
            for each in self.watchers if size == self.largest_copy else ():
                each.on_pageable_copy(tensor, result.device, self.has_workers)

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Count the calls, and the samples that enter the first model: those of a loop without a DataLoader."""
        self.called += self.hooks.clock.phase != Phase.FORWARD
        for each in self.watchers:
            each.before_forward(module, inputs, options)
        if self.model is None and is_trained(module):
            self.model = module
        if self.hooks.clock.counted_phase == Phase.VALIDATION:
            self._validate(module, inputs, options)
        if module is self.model and torch.is_grad_enabled():
            self.trained += measure_batch((inputs, options))[0]
            times = self.calls / self._steps_taken
            self.calls += 1
            for each in self.watchers:
                each.before_model(module, inputs, options, times)
            if self.stage == "closer" and not self.compiled() and not self.anomaly_mode:
                self.backward_lines.begin()

    @property
    def _steps_taken(self) -> int:
        return max(self.first_step + len(self.durations_us), 1)

    def _validate(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Count the calls of models in validations, and have one tried."""
        times = self.validated / self._steps_taken
        self.validated += 1
        for each in self.watchers:
            each.before_validation(module, inputs, options, times)

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """Have it watched."""
        for each in self.watchers:
            each.after_forward(module, output)

    def on_loss(self, function: Callable[..., Any], args: Any, options: dict[str, Any], loss: torch.Tensor) -> None:
        """Have it watched."""
        for each in self.watchers:
            each.on_loss(function, args, options, loss)

    def on_backward(self, tensors: Any) -> None:
        """Look for anomaly mode, which a script may switch on for this pass alone."""
        self.anomaly_mode = torch.is_anomaly_enabled() and not self.backward_lines.begun
        self.backward_lines.step = self.first_step + len(self.durations_us)
        self.backward_lines.on_backward(tensors)
        for each in self.watchers if self.graphs is None else (*self.watchers, self.graphs):
            each.on_backward(tensors)
        self.backward_s = monotonic()

    def after_backward(self) -> None:
        """Note the pass, if it was cut."""
        self.backward_lines.after_backward()
        for each in self.watchers:
            each.after_backward()

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Have it tried."""
        for each in self.watchers:
            each.before_optimizer(optimizer)

    def on_step_end(self, steps: int) -> None:
        """Count the step, and report if it is time for it."""
        now = monotonic()
        for each in self.watchers:
            each.on_step_end(steps)
        if self.hooks.steps.unit not in (None, self.unit):  # what was counted so far were no steps
            self.unit = self.hooks.steps.unit
            log(f"a training step is the {self.unit}")
            self.clear()
            self.hooks.clock.cut(now)
            self.stepped_s, self.called = now, 0
            return
        each_us = round((now - self.stepped_s) / steps * 1e6)
        self.durations_us += [each_us] * steps
        self.backwards_s += [self.backward_s] * steps
        self.forwards += [self.called // steps] * steps
        self.called = 0
        self.stepped_s = now
        if now - self.reported_s > REPORT_EVERY_S:
            self.report()

    def report(self) -> None:
        """Report the steps since the last report, and go on to another stage if the parent asks for it.

        Raises:
            OSError: nobody can be reached.
        """
        if self.parent is None:
            self.parent = connect(self.config)
        store = self.hooks.loading.batches
        self.batches.kept, self.batches.from_memory = store.kept, store.replayed
        store.kept = store.replayed = 0
        self.batches.with_workers, self.hooks.loading.loaders.given = self.hooks.loading.loaders.given, 0
        self.parent.send(
            StepReport(
                stage=self.stage,
                durations_us=tuple(self.durations_us),
                ended_s=self.stepped_s,
                phases=self.hooks.clock.cut(self.stepped_s),
                samples=self.loaded or self.trained,
                batches=self.batches,
                circumstances=self.circumstances(),
                pid=os.getpid(),
                rank=rank_here(),
                unit=str(self.unit),
                epochs_begun=self.epochs_begun,
                first_step=self.first_step,
                backward_s=tuple(self.backwards_s),
                forwards=tuple(self.forwards),
                failure=self.hooks.loading.loaders.failure,
                started_s=self.hooks.loading.loaders.started_s,
                waits_s=tuple(self.waits_s.items()),
            )
        )
        self.hooks.loading.loaders.started_s = 0.0
        self.first_step += len(self.durations_us)
        self.reported_s = monotonic()
        self.clear()
        while isinstance(message := self.parent.receive(timeout_s=0), SetStage):
            self.set_stage(message)

    def end(self) -> None:
        """Report the last steps as the process ends."""
        if self.durations_us and os.getpid() == self._pid:
            with suppress(OSError):
                self.report()

    def set_stage(self, message: SetStage) -> None:
        """Go on to another stage."""
        self.stage = stage = message.stage
        self.backward_lines.end()
        while self.watchers:
            self.watchers.pop().end()
        if self.graphs:
            self.graphs.end()
        elif not self.config.memory and not self.compiled():
            self.graphs = GraphLives(self.events)
        if message.causes and not self.compiled():
            self.watchers = watchers_for(message.causes, self.events)
        self.hooks.clock.synchronize = stage == "synchronized"
        store = self.hooks.loading.batches
        store.keeping, store.replaying = stage == "keep", stage == "replay"
        self.hooks.loading.loaders.load_with(message.loading, message.loader)
        self._use_threads(message.loading.threads if message.loading else 0)

    def _use_threads(self, threads: int) -> None:
        """Compute with so many threads from now on, or with the script's own number for 0."""
        if threads or self.own_threads:
            own = self.own_threads or torch.get_num_threads()
            torch.set_num_threads(threads or own)
            self.own_threads = own if threads else 0

    def circumstances(self) -> Circumstances:
        """Return what decides how fast a step is computed."""
        parameter = next(self.model.parameters(), None) if self.model is not None else None
        return Circumstances(
            device="cuda" if torch.cuda.is_initialized() else "cpu",
            threads=torch.get_num_threads(),
            double=parameter is not None and parameter.dtype == torch.float64,
            anomaly_mode=self.anomaly_mode,
            compiled=self.compiled(),
            forked=self.forked,
            distributed=distributed.is_available() and distributed.is_initialized(),
        )

    def compiled(self) -> bool:
        """Return whether torch.compile has made the model, or a part of it."""
        return self.model is not None and any(map(is_compiled, self.model.modules()))


def state_of(dataset: Any) -> str:
    """Return a digest of the plain attributes of a dataset, and of those that it wraps."""
    plain = sorted((name, str(value)) for name, value in attributes_of(dataset) if type(value) in PLAIN)
    return hashlib.blake2b(repr(plain).encode(), digest_size=8).hexdigest()


def rank_here() -> int | None:
    """Return the rank of this process among those of this machine, or in its process group; None without ranks."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return None


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
