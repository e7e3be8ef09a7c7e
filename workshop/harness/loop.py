"""The hooks in the process that trains: they cut each step into phases, note what it did, and stop between epochs.

Built on what PyTorch offers for this (optimizer step hooks, module forward hooks) and on wrapping the few functions
that it has no hooks for. After the last optimizer step of an epoch the process waits for the judge: see `Loop.wait`.
"""

import functools
import json
import os
import socket
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import distributed, nn
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import dataloader

from workshop.harness.overlap import CopyTrace
from workshop.harness.phases import LOSSES, Phases, names_device
from workshop.harness.probe import Events, Orders, encode, replaced_clocks, signature
from workshop.harness.replay import StepRecorder, recompute

MOST_STEPS = 50
"""In an epoch, where the judge does not say how many."""

SMALLEST_BATCH = 1024
"""Values in a tensor from which on its `.to(device)` counts as the copy of a batch."""

_KEPT = "_workshop_kept_batches"
_monotonic = time.monotonic


class Loop:
    """Watches the training loop of this process and obeys the judge at the other end of a socket."""

    def __init__(self, judge: socket.socket, events: Events, orders: Orders) -> None:
        self.judge, self.events = judge, events
        self.lines = judge.makefile("r")
        self.pid = os.getpid()
        self.epoch_steps = orders.epoch_steps
        self.phases = Phases()
        self.recorder = StepRecorder(Path(orders.folder), orders.sample_step)
        self.aside = False  # while the judge's own work runs through the hooks
        self.model: nn.Module | None = None
        self.optimizer: Optimizer | None = None
        self.output: Any = None  # of the model
        self.loss: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None
        self.steps: list[dict[str, Any]] = []  # of this epoch
        self.forwards: list[dict[str, Any]] = []  # since the last optimizer step
        self.backwards = 0
        self.forwards_in_epoch = 0
        self.batches: int | None = None  # of the DataLoader that began last
        self.keep_batches = self.from_memory = False
        self.copy_trace: CopyTrace | None = None

    def install(self) -> None:
        """Wrap and hook."""
        self.first_forward = nn.modules.module.register_module_forward_pre_hook(self.on_first_forward)
        warnings.filterwarnings("ignore", message=".*global hooks on modules")
        register_optimizer_step_pre_hook(self.before_step)
        register_optimizer_step_post_hook(self.after_step)
        self.wrap(torch.autograd, "backward", self.backward)
        self.wrap(torch.autograd, "grad", self.backward)
        for name in LOSSES:
            self.wrap(nn.functional, name, self.on_loss)
        for name in ("to", "cuda"):
            self.wrap(torch.Tensor, name, self.copy)
        self.wrap(dataloader.DataLoader, "__iter__", self.begin_loading)
        for kind in (dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter):
            self.wrap(kind, "__next__", self.load)
        self.wrap(nn.Module, "compile", self.compile_in_place)

    def wrap(self, owner: Any, name: str, by: Callable[..., Any]) -> None:
        """Put `by(original, *args)` in the place of a function, in this process and while the script itself calls."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapper(*args: Any, **options: Any) -> Any:
            # Other threads of the script may go on loading while the training one does the judge's work.
            if os.getpid() != self.pid or (self.aside and self.phases.is_own_thread()):
                return original(*args, **options)
            return by(original, *args, **options)

        setattr(owner, name, wrapper)

    # Loading

    def begin_loading(self, original: Callable[..., Any], loader: Any) -> Any:
        """`iter(loader)`: with workers, it starts them."""
        self.batches = _length(loader)
        self.events("iter", batches=self.batches, workers=loader.num_workers)
        if self.from_memory and hasattr(loader, _KEPT):
            return iter(getattr(loader, _KEPT))
        with self.phases.within("data wait"):
            iterator = original(loader)
        kept: list[Any] = []
        setattr(loader, _KEPT, kept)
        setattr(iterator, _KEPT, kept)
        return iterator

    def load(self, original: Callable[..., Any], iterator: Any) -> Any:
        """`next(iterator)`."""
        with self.phases.within("data wait"):
            batch = original(iterator)
        if self.keep_batches:
            getattr(iterator, _KEPT).append(batch)
        return batch

    def copy(self, original: Callable[..., Any], tensor: torch.Tensor, *args: Any, **options: Any) -> Any:
        """`tensor.to(device)` or `tensor.cuda()`, of interest where the tensor is a batch."""
        is_batch = type(tensor) is torch.Tensor and tensor.ndim >= 2 and tensor.numel() >= SMALLEST_BATCH
        in_model = self.phases.is_own_thread() and self.phases.stack[-1] not in ("other", "data wait")
        if not is_batch or in_model or not names_device(original, args, options):
            return original(tensor, *args, **options)
        with self.phases.within("host-to-device copy"):
            result = original(tensor, *args, **options)
        self.events("copy", picture=encode(signature(tensor[:1])) if tensor.device.type == "cpu" else None)
        return result

    # The model

    def on_first_forward(self, module: nn.Module, args: Any) -> None:
        """The outermost module with parameters is the model. Global hooks then go, before anything is compiled."""
        if not self.aside and os.getpid() == self.pid and _is_training(module):
            self.adopt(module)
            # Functions, because a copy of the model would try to copy the owner of a bound method, too.
            module.register_forward_pre_hook(lambda *call: self.before_forward(*call), with_kwargs=True)
            module.register_forward_hook(lambda *call: self.after_forward(*call), always_call=True)
            self.before_forward(module, args, {})

    def adopt(self, module: nn.Module) -> None:
        """Take this module for the model."""
        self.first_forward.remove()
        self.model = module
        self.parameters = list(module.parameters())

    def compile_in_place(self, original: Callable[..., Any], module: nn.Module, *args: Any, **options: Any) -> None:
        """`module.compile()` makes calls go past the hooks: go along."""
        original(module, *args, **options)
        compiled = module._compiled_call_impl

        @functools.wraps(module.forward)
        def call(*inputs: Any, **named: Any) -> Any:
            if self.model is None and _is_training(module):
                self.adopt(module)
            if self.aside or self.model is not module:
                return compiled(*inputs, **named)
            self.before_forward(module, inputs, named)
            output = None
            try:
                output = compiled(*inputs, **named)
                return output
            finally:
                self.after_forward(output)

        module._compiled_call_impl = call

    def before_forward(self, module: nn.Module, args: Any, options: dict[str, Any]) -> None:
        """Note what enters the model."""
        tensors = [value for value in (*args, *options.values()) if isinstance(value, torch.Tensor)]
        if self.aside or not torch.is_grad_enabled() or not tensors:
            return
        batch = tensors[0]
        self.forwards_in_epoch += 1
        self.forwards.append(
            {
                "t": _monotonic(),
                "shape": tuple(batch.shape),
                "dtype": str(batch.dtype).removeprefix("torch."),
                "device": batch.device.type,
                "autocast": torch.is_autocast_enabled(batch.device.type),
                "pictures": signature(batch),
            }
        )
        if self.forwards_in_epoch > 2 * (self.epoch_steps or MOST_STEPS):
            self.wait(finished=False)  # it trains without ever stepping the optimizer
        self.recorder.before_forward(batch)
        self.phases.enter("forward")

    def after_forward(self, *call: Any) -> None:
        """The forward pass ends; with what came out, if it is known."""
        if not self.aside and self.phases.stack[-1] == "forward":
            self.phases.leave()
            self.output = call[-1]

    def on_loss(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """A loss function: its second argument are the targets."""
        loss = original(*args, **options)
        target = args[1] if len(args) > 1 else options.get("target")
        if torch.is_grad_enabled() and self.forwards and isinstance(target, torch.Tensor):
            self.forwards[-1]["targets"] = target.detach().clone()
            self.loss = (original, args[2:], {k: v for k, v in options.items() if k not in ("input", "target")})
            self.recorder.on_loss(target, loss)
        return loss

    def backward(self, original: Callable[..., Any], tensors: Any, *args: Any, **options: Any) -> Any:
        """`loss.backward()`."""
        first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
        if isinstance(first, FunctionalTensor):  # torch.compile traces one of its own, unless its cache has it
            return original(tensors, *args, **options)
        self.backwards += 1
        if first is self.output and first is not None:  # the model's output is the loss
            self.loss = (_as_it_is, (), {})
            self.recorder.on_loss(None, first)
        self.output = None
        with self.phases.within("backward"):
            return original(tensors, *args, **options)

    # The optimizer

    def before_step(self, optimizer: Optimizer, *_: Any) -> None:
        """The step begins."""
        if self.aside or self.model is None:
            return
        self.optimizer = optimizer
        if self.recorder.wants(len(self.steps)):
            self.recorder.before_step(self.parameters, optimizer)
        self.phases.enter("optimizer")

    def after_step(self, optimizer: Optimizer, *_: Any) -> None:
        """The step ends, and perhaps the epoch."""
        if self.aside or self.model is None:
            return
        if self.recorder.wants(len(self.steps)):
            self.recorder.after_step(self.parameters)
        self.phases.leave()
        smallest = min(self.parameters, key=torch.numel)
        self.steps.append(
            {"forwards": self.forwards, "backwards": self.backwards, "parameter": smallest.detach().clone()}
        )
        self.forwards, self.backwards = [], 0
        if self.epoch_steps is None:  # the loader that this first step took its batch from says it
            self.epoch_steps = min(self.batches or MOST_STEPS, MOST_STEPS)
        if len(self.steps) == self.epoch_steps:
            self.wait(finished=True)

    # The judge

    def wait(self, finished: bool) -> None:
        """Stop at the end of an epoch, hand over what was noted, and do as the judge says until it says "go"."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.phases.leave()
        self.say(arrived=True)  # the judge's clock stops here
        copies = self.copy_trace.finish() if self.copy_trace else None
        self.copy_trace = None
        self.aside = True
        self.write_steps()
        self.say(
            finished=finished,
            steps=len(self.steps),
            phases=self.phases.seconds,
            sample=self.recorder.save(),
            replaced_clocks=replaced_clocks(),
            copies=copies,
        )
        while (command := self.hear())["do"] != "go":
            if command["do"] == "recompute":
                self.say(**self.recompute([Path(sample) for sample in command["samples"]]))
        self.recorder.sample_step = command["sample_step"]
        self.keep_batches, self.from_memory = command["keep_batches"], command["from_memory"]
        self.steps, self.forwards, self.backwards, self.forwards_in_epoch = [], [], 0, 0
        if command["trace_copies"]:
            self.copy_trace = CopyTrace()
        self.aside = False
        self.phases.restart()

    def write_steps(self) -> None:
        """An event for each step of the epoch. Only now are figures fetched from the device."""
        if self.optimizer is None or self.model is None:
            return
        group = self.optimizer.param_groups[0]
        settings = {name: value for name, value in group.items() if isinstance(value, (int, float, tuple))}
        self.events(
            "model",
            parameters=[tuple(parameter.shape) for parameter in self.parameters],
            optimizer=type(self.optimizer).__name__,
            settings=settings,
            ranks=distributed.get_world_size() if distributed.is_initialized() else 1,
        )
        for step in [*self.steps, {"forwards": self.forwards, "backwards": self.backwards, "parameter": None}]:
            if step["forwards"] or step["parameter"] is not None:
                self.events(
                    "step",
                    forwards=[_as_plain(forward) for forward in step["forwards"]],
                    backwards=step["backwards"],
                    parameter=None if step["parameter"] is None else step["parameter"].flatten()[:64].tolist(),
                )

    def recompute(self, samples: list[Path]) -> dict[str, Any]:
        """Do a step that another script recorded over again with this script's model, loss and optimizer."""
        if self.model is None or self.optimizer is None or self.loss is None:
            return {"error": "this script's own step was not seen whole"}
        try:
            return recompute(samples, self.model, self.optimizer, self.loss)
        except Exception as error:  # of a batch that the model or the loss does not take
            return {"error": f"{type(error).__name__}: {error}"}

    def say(self, **message: Any) -> None:
        """Send the judge a line. Without a judge there is nobody to work for."""
        try:
            self.judge.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            self.give_up(error)

    def hear(self) -> dict[str, Any]:
        """What the judge says next."""
        line = self.lines.readline()
        if not line:
            self.give_up("it hung up")
        return json.loads(line)

    def give_up(self, why: object) -> NoReturn:
        """End this process: its training is of use to nobody else."""
        print(f"the judge cannot be reached: {why}", file=sys.stderr, flush=True)
        os._exit(1)


def _as_it_is(output: torch.Tensor, _targets: None) -> torch.Tensor:
    """The loss of a model that returns it."""
    return output


def _is_training(module: nn.Module) -> bool:
    return torch.is_grad_enabled() and any(parameter.requires_grad for parameter in module.parameters())


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None


def _as_plain(forward: dict[str, Any]) -> dict[str, Any]:
    """A forward pass as an event tells it."""
    plain = {**forward, "pictures": encode(forward["pictures"])}
    if "targets" in forward:
        plain["targets"] = forward["targets"].flatten()[:4096].tolist()
    return plain
