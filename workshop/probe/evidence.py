"""Keeps evidence of what a training does, for the judge, and stops the training after each epoch.

After the last optimizer step of an epoch the process waits until the judge lets it go on: see `EvidenceKeeper.wait`.
"""

import atexit
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader

from workshop.probe.connection import Connection
from workshop.probe.copy_trace import CopyTrace
from workshop.probe.event_file import EventFile
from workshop.probe.hooks import Listener, TrainingHooks, is_trained
from workshop.probe.photo_reads import replaced_clocks
from workshop.probe.recorded_step import LossFunction, StepRecorder, recompute
from workshop.probe.signature import encode, signature
from workshop.probe.wire import (
    BatchCopied,
    EpochBegan,
    EpochEnded,
    EpochReport,
    ForwardPass,
    LoaderStarted,
    ProbeConfig,
    Proceed,
    Recomputation,
    Recompute,
    StepTaken,
    TrainedModel,
)

MOST_STEPS = 50
"""The number of steps in an epoch, where neither the judge nor the DataLoader asks for fewer."""

MOST_TARGETS = 4096
"""The number of values of a target tensor that are noted."""

MOST_PARAMETERS = 64
"""The number of values of the model's smallest parameter that are noted."""

_monotonic = time.monotonic  # the script may replace it


@dataclass
class _Pass:
    """A forward pass whose signatures and targets are still on their device: they are fetched after the epoch."""

    t: float
    shape: tuple[int, ...]
    dtype: str
    device: str
    autocast: bool
    pictures: torch.Tensor
    targets: torch.Tensor | None = None

    def fetch(self) -> ForwardPass:
        """Return the pass as an event tells it."""
        targets = None if self.targets is None else self.targets.flatten()[:MOST_TARGETS].tolist()
        fields = {**vars(self), "pictures": encode(self.pictures), "targets": targets}
        return ForwardPass(**fields)


@dataclass
class _Step:
    """The passes before a step of the optimizer, and a parameter after it; None as long as it has not stepped."""

    forwards: list[_Pass] = field(default_factory=list)
    backwards: int = 0
    parameter: torch.Tensor | None = None


class EvidenceKeeper(Listener):
    """Notes each step of the model that is trained: the first one with parameters that is called with gradients."""

    def __init__(self, config: ProbeConfig, judge: Connection, events: EventFile) -> None:
        assert config.judged
        self.judge, self.events = judge, events
        self.hooks = TrainingHooks(self)
        self.epoch_steps = config.judged.epoch_steps
        self.recorder = StepRecorder(Path(config.folder), config.judged.sample_step)
        self.has_begun = False
        self.batches: int | None = None  # of the DataLoader that began last
        self.model: nn.Module | None = None
        self.parameters: list[nn.Parameter] = []
        self.optimizer: Optimizer | None = None
        self.loss: LossFunction | None = None
        self.output: Any = None  # of the model
        self.steps: list[_Step] = []  # of this epoch
        self.step = _Step()  # that is under way
        self.forwards_in_epoch = 0
        self._pid = os.getpid()
        self.copy_trace: CopyTrace | None = None
        atexit.register(self.end)

    def begin(self) -> None:
        """At the first sign of the training, tell the judge that the start-up is over."""
        if not self.has_begun:
            self.has_begun = True
            self.hooks.clock.restart()
            self.judge.send(EpochBegan())

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Note its length, which may be that of an epoch."""
        self.begin()
        try:
            self.batches = len(loader)
        except TypeError:  # of an iterable dataset
            self.batches = None
        self.events.write(LoaderStarted, batches=self.batches, workers=loader.num_workers)

    def on_copy(self, tensor: torch.Tensor) -> None:
        """Note the copy of a batch, or of its targets; what is copied before the training begins is the model."""
        if self.has_begun and tensor.ndim and tensor.numel():
            picture = encode(signature(tensor[:1])) if tensor.device.type == "cpu" else None
            self.events.write(BatchCopied, picture=picture)

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note what enters the model."""
        if self.model is None and is_trained(module):
            self.begin()
            self.model, self.parameters = module, list(module.parameters())
        batch = next((value for value in (*inputs, *options.values()) if isinstance(value, torch.Tensor)), None)
        if module is not self.model or not torch.is_grad_enabled() or batch is None:
            return
        dtype, device = str(batch.dtype).removeprefix("torch."), batch.device.type
        autocast = torch.is_autocast_enabled(device)
        self.step.forwards.append(
            _Pass(_monotonic(), tuple(batch.shape), dtype, device, autocast, signature(batch)),
        )
        self.forwards_in_epoch += 1
        if self.forwards_in_epoch > 2 * (self.epoch_steps or MOST_STEPS):
            self.wait(finished=False)  # it trains without ever stepping an optimizer
        self.recorder.before_forward(batch)

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """Keep the output at hand: it may be the loss itself."""
        if module is self.model:
            self.output = output

    def on_loss(self, function: Callable[..., Any], args: Any, options: dict[str, Any], loss: torch.Tensor) -> None:
        """Note the targets, the second argument of a loss function."""
        targets = args[1] if len(args) > 1 else options.get("target")
        if torch.is_grad_enabled() and self.step.forwards and isinstance(targets, torch.Tensor):
            self.step.forwards[-1].targets = targets.detach().clone()
            others = {name: value for name, value in options.items() if name not in ("input", "target")}
            self.loss = LossFunction(function, args[2:], others)
            self.recorder.on_loss(targets, loss)

    def on_backward(self, tensors: Any) -> None:
        """Note a backward pass; if it begins at the model's output, that is the loss."""
        first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
        self.step.backwards += 1
        if first is self.output and first is not None:
            self.loss = LossFunction(lambda output, targets: output)
            self.recorder.on_loss(None, first)
        self.output = None

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Record the state before the step, if it is the step that the judge asks for."""
        if self.model is not None:
            self.optimizer = optimizer
            if self.recorder.wants(len(self.steps)):
                self.recorder.before_step(self.parameters, optimizer)

    def after_optimizer(self, optimizer: Optimizer) -> None:
        """Note the step; perhaps the epoch ends with it."""
        if self.model is None:
            return
        if self.recorder.wants(len(self.steps)):
            self.recorder.after_step(self.parameters)
        self.step.parameter = min(self.parameters, key=torch.numel).detach().clone()
        self.steps.append(self.step)
        self.step = _Step()
        if self.epoch_steps is None:  # the DataLoader that this first step took its batch from says it
            self.epoch_steps = min(self.batches or MOST_STEPS, MOST_STEPS)
        if len(self.steps) == self.epoch_steps:
            self.wait(finished=True)

    def wait(self, finished: bool) -> None:
        """Stop at the end of an epoch, hand over what was noted, and do what the judge asks for until it says go on."""
        self.report(finished)
        batches = self.hooks.batches
        while not isinstance(message := self.judge.receive(), Proceed):
            self.judge.send(self.recompute(message))
        self.steps, self.step, self.forwards_in_epoch = [], _Step(), 0
        self.recorder.sample_step = message.sample_step
        batches.keeping, batches.replaying, batches.replayed = message.keep_batches, message.from_memory, 0
        self.copy_trace = CopyTrace() if message.trace_copies else None
        self.hooks.clock.restart()

    def end(self) -> None:
        """As the script ends, hand over what was noted of an epoch that is not over."""
        if self.steps and os.getpid() == self._pid:
            self.report(finished=True, cut_short=True)

    def report(self, finished: bool, cut_short: bool = False) -> None:
        """Hand over what was noted of an epoch."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        clock = self.hooks.clock
        clock.adopt_thread()
        phases = clock.cut()
        self.judge.send(EpochEnded())  # the judge's clock stops here
        copies = self.copy_trace.finish() if self.copy_trace else None
        self.copy_trace = None
        self.write_events()
        self.judge.send(
            EpochReport(
                finished=finished,
                steps=len(self.steps),
                phases=phases,
                sample=self.recorder.save(),
                replaced_clocks=replaced_clocks(),
                from_memory=self.hooks.batches.replayed,
                copy_trace=copies,
                cut_short=cut_short,
            )
        )

    def write_events(self) -> None:
        """Write the model and each step of the epoch. Only now are figures fetched from the device."""
        if self.optimizer is None or self.model is None:
            return
        group = self.optimizer.param_groups[0]
        self.events.write(
            TrainedModel,
            parameters=[tuple(parameter.shape) for parameter in self.parameters],
            optimizer=type(self.optimizer).__name__,
            settings={name: value for name, value in group.items() if isinstance(value, (int, float, tuple))},
            ranks=distributed.get_world_size() if distributed.is_initialized() else 1,
        )
        for step in [*self.steps, self.step]:
            if step.forwards or step.parameter is not None:
                parameter = None if step.parameter is None else step.parameter.flatten()[:MOST_PARAMETERS].tolist()
                forwards = tuple(each.fetch() for each in step.forwards)
                self.events.write(StepTaken, forwards=forwards, backwards=step.backwards, parameter=parameter)

    def recompute(self, message: Recompute) -> Recomputation:
        """Take a step that another script recorded, with this script's model, loss function and optimizer."""
        if self.model is None or self.optimizer is None or self.loss is None:
            return Recomputation(error="this script's own step was not seen whole")
        try:
            return recompute([Path(sample) for sample in message.samples], self.model, self.optimizer, self.loss)
        except Exception as error:  # of a batch that the model or the loss function does not take
            return Recomputation(error=f"{type(error).__name__}: {error}")
