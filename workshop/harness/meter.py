"""The hooks of `workshop measure`, in the process that trains: they cut each step into phases and time them.

They change nothing and keep no evidence, so that any script can be measured at little cost. A step ends with the step
of one optimizer, the first to step; what others do in between belongs to it. When only they go on, one of them follows.
"""

import copy
import functools
import itertools
import json
import os
import select
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import dataloader

from workshop.harness.phases import LOSSES, MOST_KEPT, Phases, names_device

SAY_EVERY_S = 0.05
"""Shorter steps are reported together: the telling costs time, too."""

LEARNING_STEPS = 3
"""So long every module is looked at as it is called, to find those that the script calls itself."""

ABDICATES_AFTER = 5
"""So many steps of other optimizers without one of the first, and it is no longer in use."""

KEPT, REPLAYED = "_workshop_kept_batches", "_workshop_replayed_batches"


class Meter:
    """Sends a line for each step, or some short ones: the time in each phase, and how many samples were loaded."""

    def __init__(self, parent: socket.socket) -> None:
        self.parent = parent
        self.pid = os.getpid()
        self.phases = Phases()
        self.stage = "warm-up"
        self.optimizer: Optimizer | None = None
        self.steps_of_others = 0
        self.learning_steps = 0
        self.clear()
        self.said = time.monotonic()
        self.roots: list[nn.Module] = []

    def clear(self) -> None:
        """Begin to count for the next report."""
        self.steps = self.loaded = self.trained = 0
        self.batches = dict.fromkeys(("training", "validation", "elsewhere", "kept", "from_memory"), 0)

    def install(self) -> None:
        """Hook and wrap."""
        warnings.filterwarnings("ignore", message=".*global hooks on modules")
        self.learning = register_module_forward_pre_hook(self.on_any_forward)
        register_optimizer_step_pre_hook(self.before_step)
        register_optimizer_step_post_hook(self.after_step)
        self.time(torch.autograd, "backward", "backward")
        self.time(torch.autograd, "grad", "backward")
        self.time(Optimizer, "zero_grad", "optimizer")
        for name in LOSSES:
            self.time(nn.functional, name, "forward")
        for name in ("to", "cuda"):
            self.wrap(torch.Tensor, name, self.copy)
        self.wrap(nn.Module, "compile", self.compile_in_place)
        self.wrap(dataloader.DataLoader, "__iter__", self.begin_loading)
        for kind in (dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter):
            self.wrap(kind, "__next__", self.load)

    def wrap(self, owner: Any, name: str, by: Callable[..., Any]) -> None:
        """Put `by(original, *args)` in the place of a function, in this process."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapper(*args: Any, **options: Any) -> Any:
            if os.getpid() != self.pid or torch.compiler.is_compiling():
                return original(*args, **options)
            return by(original, *args, **options)

        setattr(owner, name, wrapper)

    def time(self, owner: Any, name: str, phase: str) -> None:
        """Count the calls of a function to a phase."""

        def timed(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
            with self.phases.within(phase):
                return original(*args, **options)

        self.wrap(owner, name, timed)

    # Loading

    def begin_loading(self, original: Callable[..., Any], loader: Any) -> Any:
        """`iter(loader)`: with workers, it starts them."""
        kept = loader.__dict__.setdefault(KEPT, [])
        if self.stage == "replay" and kept:
            return self.from_memory(kept)
        with self.phases.within("data wait"):
            iterator = original(loader)
        setattr(iterator, KEPT, kept)
        return iterator

    def from_memory(self, kept: list[Any]) -> Iterator[Any]:
        """An epoch in replay, which does not end."""
        for batch in itertools.cycle(kept):
            with self.phases.within("data wait"):
                own = _copy(batch)
            self.count(own)
            self.batches["from_memory"] += 1
            yield own

    def load(self, original: Callable[..., Any], iterator: Any) -> Any:
        """`next(iterator)`; in replay, the batch comes out of memory."""
        kept = getattr(iterator, KEPT, [])
        if self.stage == "replay" and kept:
            if not hasattr(iterator, REPLAYED):
                setattr(iterator, REPLAYED, self.from_memory(kept))
            return next(getattr(iterator, REPLAYED))
        with self.phases.within("data wait"):
            batch = original(iterator)
        self.count(batch)
        if torch.is_grad_enabled() and self.stage == "keep" and len(kept) < MOST_KEPT:
            kept.append(_copy(batch))
            self.batches["kept"] += 1
        return batch

    def count(self, batch: Any) -> None:
        """Add a batch to the next report."""
        self.batches["training" if torch.is_grad_enabled() else "validation"] += 1
        self.batches["elsewhere"] += not self.phases.is_own_thread()
        if torch.is_grad_enabled():
            self.loaded += _samples(batch)

    def copy(self, original: Callable[..., Any], tensor: torch.Tensor, *args: Any, **options: Any) -> Any:
        """`tensor.to(device)` or `tensor.cuda()` by the loop itself."""
        from_host = tensor.device.type == "cpu" and self.phases.stack[-1] == "other"
        if not from_host or not names_device(original, args, options):
            return original(tensor, *args, **options)
        with self.phases.within("host-to-device copy"):
            return original(tensor, *args, **options)

    # Models

    def on_any_forward(self, module: nn.Module, *inputs: Any) -> None:
        """A module that is called from outside of any other is one of the script's models, or its loss."""
        if os.getpid() != self.pid or self.phases.stack[-1] == "forward" or not self.phases.is_own_thread():
            return
        if not any(module is root for root in self.roots):
            self.roots.append(module)
            # Functions, because a copy of the model would try to copy the owner of a bound method, too.
            module.register_forward_pre_hook(lambda *call: self.before_forward(*call), with_kwargs=True)
            module.register_forward_hook(lambda *call: self.after_forward(), always_call=True)
            self.before_forward(module, *inputs)

    def before_forward(self, module: nn.Module, *inputs: Any) -> None:
        """Inside of a model nothing is looked for; what is compiled there sees no global hook, now or later."""
        if os.getpid() != self.pid or torch.compiler.is_compiling():
            return
        self.learning.remove()
        if module is self.roots[0] and torch.is_grad_enabled():
            self.trained += _samples(inputs)
        self.phases.enter("forward")

    def after_forward(self) -> None:
        """The model has been called."""
        if os.getpid() != self.pid or torch.compiler.is_compiling():
            return
        if self.phases.stack[-1] == "forward":
            self.phases.leave()
        if self.learning_steps < LEARNING_STEPS and self.phases.stack[-1] != "forward":
            self.learning = register_module_forward_pre_hook(self.on_any_forward)

    def compile_in_place(self, original: Callable[..., Any], module: nn.Module, *args: Any, **options: Any) -> None:
        """`module.compile()` makes calls go past the hooks: go along."""
        original(module, *args, **options)
        compiled = module._compiled_call_impl

        @functools.wraps(module.forward)
        def call(*inputs: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling() or not self.phases.is_own_thread():
                return compiled(*inputs, **named)
            if not any(module is root for root in self.roots):
                self.roots.append(module)
            self.before_forward(module, inputs, named)
            try:
                return compiled(*inputs, **named)
            finally:
                self.after_forward()

        module._compiled_call_impl = call

    # Steps

    def before_step(self, optimizer: Optimizer, *_: Any) -> None:
        """An optimizer's step begins."""
        if self.optimizer is None:
            self.optimizer = optimizer
            self.phases.restart()  # this is the thread that trains
        self.phases.enter("optimizer")

    def after_step(self, optimizer: Optimizer, *_: Any) -> None:
        """An optimizer's step ends; with the leading one's, the whole step."""
        self.phases.leave()
        self.phases.drop("optimizer")  # of a step that has raised, and did not come here
        if not self.phases.is_own_thread() or not self.leads(optimizer):
            return
        self.steps += 1
        self.learning_steps += 1
        if time.monotonic() - self.said > SAY_EVERY_S:
            self.report()

    def leads(self, optimizer: Optimizer) -> bool:
        """Whether it is the one whose steps count."""
        if optimizer is self.optimizer:
            self.steps_of_others = 0
            return True
        self.steps_of_others += 1
        if self.steps_of_others < ABDICATES_AFTER:
            return False
        self.steps += ABDICATES_AFTER - 1  # that had been taken for a part of one
        self.optimizer, self.steps_of_others = optimizer, 0
        self.learning_steps = 0  # there may be other models, too
        self.learning.remove()
        self.learning = register_module_forward_pre_hook(self.on_any_forward)
        return True

    def report(self) -> None:
        """Tell the parent of the steps since the last report, and do as it says."""
        self.say(
            stage=self.stage,
            steps=self.steps,
            phases=self.phases.cut(),
            samples=self.loaded or self.trained,
            batches=self.batches,
            device="cuda" if torch.cuda.is_initialized() else "cpu",
        )
        self.said = time.monotonic()
        self.clear()
        if select.select([self.parent], [], [], 0)[0]:
            self.obey(self.parent.recv(4096))

    def obey(self, command: bytes) -> None:
        """Go on to another stage; without a parent there is nobody to measure for."""
        if not command:
            os._exit(1)
        self.stage = json.loads(command.splitlines()[-1])["stage"]
        self.phases.synchronize = self.stage == "synchronized"

    def say(self, **message: Any) -> None:
        """Tell the parent."""
        try:
            self.parent.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            os._exit(1)


def _samples(batch: Any) -> int:
    """The length of the first tensor in a batch; 0 if none is found."""
    for leaf in tree_leaves(batch):
        inside = [leaf] if isinstance(leaf, torch.Tensor) else tree_leaves(getattr(leaf, "__dict__", None))
        for tensor in inside:
            if isinstance(tensor, torch.Tensor) and tensor.ndim:
                return len(tensor)
    return 0


def _copy(batch: Any) -> Any:
    """A batch of one's own, out of shared memory, of which there may be little; scripts change what they are given."""

    def copy_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return copy.deepcopy(leaf)
        if torch.cuda.is_initialized() and leaf.is_pinned():
            return leaf  # a clone would not be pinned, and its way to the device longer
        return leaf.clone()

    return tree_map(copy_leaf, batch)
