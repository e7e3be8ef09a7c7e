"""The one set of hooks into a training loop: it cuts each step into phases and tells listeners what happens.

It rests on what PyTorch offers (hooks around optimizer steps and modules) and wraps the few functions that have no
hooks: DataLoader iteration, loss functions, `backward`, `.to(device)` and `module.compile()`.
"""

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Protocol
from weakref import WeakSet

import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, get_worker_info

from workshop.probe.activity import describe_fault
from workshop.probe.batch_store import BatchStore
from workshop.probe.changed_loaders import ChangedLoaders
from workshop.probe.internals import compiled_call, forward_hooks, is_traced, loader_iterators, set_compiled_call
from workshop.probe.listener import Listener, tell
from workshop.probe.loader_epochs import NO_BATCH, Epoch, LoaderEpochs
from workshop.probe.log import log
from workshop.probe.phase_clock import PhaseClock
from workshop.probe.phases import Phase
from workshop.probe.replaced_function import replace_function
from workshop.probe.sharding import inner_optimizer
from workshop.probe.step_counter import StepCounter

LOSSES = """
cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy
binary_cross_entropy_with_logits gaussian_nll_loss
""".split()
"""The loss functions of torch.nn.functional; the modules of torch.nn call them."""

LEARNING_STEPS = 3
"""For this many steps, every module call is examined to find the modules that the script itself calls."""


class ModuleHook:
    """A hook on a module of the script; in a copied or pickled module it does nothing and needs no import."""

    def __init__(self, do: Callable[..., Any]) -> None:
        self._do = do

    def __call__(self, *call: Any) -> Any:
        """Call the hook's function."""
        return self._do(*call)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Replace the hook, when pickled or copied, by a function of the standard library that takes anything."""
        return getattr, (nullcontext(), "__exit__")


class Handover(Protocol):
    """Replaces what a loop works on; each method returns None to leave it as it is."""

    def batch(self, iterator: Any) -> Any:
        """Return the batch that a DataLoader's iterator hands out."""

    def inputs(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the arguments of a module that the script calls, as a tuple and a dictionary."""

    def targets(self, targets: torch.Tensor) -> torch.Tensor | None:
        """Return the targets of a loss function."""


class TrainingHooks:
    """The hooks, for the process that makes them and its training thread.

    Attributes:
        clock: cuts the time of the training thread into phases.
        batches: keeps batches and hands them out again.
        loaders: lets other DataLoaders load the batches.
        handover: replaces batches, inputs and targets by recorded ones; None most of the time.
    """

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners
        self.clock = PhaseClock()
        self.batches = BatchStore()
        self.loaders = ChangedLoaders()
        self.handover: Handover | None = None
        self.epochs = LoaderEpochs()
        self.steps = StepCounter()
        self._pid = self._seen_pid = os.getpid()
        self._of_thread = threading.local()
        self._roots: list[nn.Module] = []
        self._trained: WeakSet[nn.Module] = WeakSet()
        self._loaded_without_gradients = False
        self._learning_steps = 0
        self._installed = self._has_begun = False
        self._unlearn: Callable[[], None] | None = None
        self._undo: list[Callable[[], None]] = []
        self._sharded: Optimizer | None = None  # that steps, or has stepped last, with another one inside

    def install(self) -> None:
        """Install every hook and wrapper."""
        self._installed = True
        self._wrap(torch.jit.RecursiveScriptModule, "__call__", self._forward)
        self._learn()
        self._undo.append(register_optimizer_step_pre_hook(self._before_optimizer).remove)
        self._undo.append(register_optimizer_step_post_hook(self._after_optimizer).remove)
        self._wrap(torch.autograd, "backward", self._backward)
        self._wrap(torch.autograd, "grad", self._backward)
        self._wrap(Optimizer, "zero_grad", self._beside_step)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._wrap(nn.utils, name, self._beside_step)
        self._wrap(lr_scheduler.ReduceLROnPlateau, "step", self._adapt)
        for name in LOSSES:
            self._wrap(nn.functional, name, self._loss)
        for name in ("to", "cuda"):
            self._wrap(torch.Tensor, name, self._copy)
        self._wrap(nn.Module, "compile", self._compile_in_place)
        self._wrap(torch.jit, "script", self._script)
        for no_gradients in (torch.no_grad, torch.inference_mode):
            self._wrap(no_gradients, "__exit__", self._leave_no_gradients)
        self._wrap(DataLoader, "__iter__", self._start_loader)
        for kind in loader_iterators()[1:]:
            self._wrap(kind, "__next__", self._load)
        log("the hooks into the training are in place")

    def remove(self) -> None:
        """Remove every hook and wrapper. Modules that were compiled in place stay wrapped."""
        self._installed = False
        self._stop_learning()
        while self._undo:
            self._undo.pop()()

    def _is_active(self) -> bool:
        """Whether this call is the script's own: not a worker's, the compiler's, or a listener's."""
        if torch.compiler.is_compiling() or getattr(self._of_thread, "ignores", False) or get_worker_info() is not None:
            return False
        return os.getpid() == self._pid or self._goes_on_in_fork()

    def _goes_on_in_fork(self) -> bool:
        """Start over in a forked process and return True, if a listener goes on there."""
        if os.getpid() == self._seen_pid:
            return False
        self._seen_pid = os.getpid()
        with self._guarded():
            self.listeners = tuple(each for each in self.listeners if each.goes_on_in_fork())
        if not self.listeners:
            return False
        log("the hooks go on in this forked process")
        self._pid, self.steps, self._learning_steps, self._has_begun = os.getpid(), StepCounter(), 0, False
        self._of_parent = self.loaders  # kept: its end would be that of the workers, which are the parent's
        self.batches, self.loaders = BatchStore(), ChangedLoaders()
        self.clock.adopt_thread()
        self.clock.restart()
        self._learn()
        return True

    def _tell(self, method: str, *about: Any) -> None:
        """Call a method of each listener."""
        with self._guarded():
            if not self._has_begun:
                self._has_begun = True
                tell(self.listeners, "on_begin")
            tell(self.listeners, method, *about)

    def guard(self, do: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a listener's function so that it runs only in the script's own calls and never raises."""

        def guarded(*about: Any) -> Any:
            if self._is_active():
                with self._guarded():
                    return do(*about)
            return None

        return guarded

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Make the hooks ignore this thread meanwhile, and keep its exceptions from the script."""
        ignored = getattr(self._of_thread, "ignores", False)
        self._of_thread.ignores = True
        try:
            yield
        except Exception as error:
            self._give_up(error)
        finally:
            self._of_thread.ignores = ignored

    def _give_up(self, error: Exception) -> None:
        """Tell the listeners about a fault of the probe, and leave the script alone from now on."""
        fault = describe_fault(error)
        self.remove()
        self.batches.keeping = self.batches.replaying = False
        self.handover = None
        self.loaders.load_with(None)
        for listener in self.listeners:
            with suppress(Exception):
                listener.on_fault(fault)
        self.listeners = ()

    def _wrap(self, owner: Any, name: str, by: Callable[..., Any]) -> None:
        """Replace a function by `by(original, *args, **options)`, until the hooks are removed."""
        self._undo.append(self._replace(owner, name, by))

    def _replace(self, owner: Any, name: str, by: Callable[..., Any]) -> Callable[[], None]:
        """Replace a function, and return a function that restores it."""
        original = getattr(owner, name)

        def wrapper(*args: Any, **options: Any) -> Any:
            return by(original, *args, **options) if self._is_active() else original(*args, **options)

        return replace_function(owner, name, wrapper)

    # Loading

    def _start_loader(self, original: Callable[..., Any], loader: Any) -> Any:
        """`iter(loader)` starts the workers, if there are any."""
        self._tell("on_loader_start", loader)
        if not torch.is_grad_enabled():
            self._learn()  # another model may be validated than the one that is trained, such as its averaged copy
        if self._is_replaced(loader):
            length = None
            with self._guarded():
                length = self.epochs.length(loader)
            return Epoch(lambda: self._in_place_of(loader), lambda: self._begin_epoch(original, loader), length)
        return self._begin_epoch(original, loader)

    def _begin_epoch(self, original: Callable[..., Any], loader: Any) -> Any:
        with self.clock.within(Phase.DATA_WAIT):
            iterator = original(loader)
        with self._guarded():
            for each in (self.epochs, self.batches, self.loaders):
                each.started(loader, iterator)
        return iterator

    def _load(self, original: Callable[..., Any], iterator: Any) -> Any:
        """`next(iterator)` waits for a batch, or loads it."""
        self._tell("before_batch")
        if self.handover and (batch := self._handed_over("batch", iterator)) is not None:
            self._got(batch)
            return batch
        is_replaced = self._is_replaced(iterator)
        if (is_replaced or self.epochs.is_replaced(iterator)) and self.epochs.is_over(iterator):
            raise StopIteration
        if is_replaced and (batch := self._in_place_of(iterator)) is not NO_BATCH:
            return batch
        try:
            with self.clock.within(Phase.DATA_WAIT):
                batch = original(iterator)
        except StopIteration:
            with self._guarded():
                self.epochs.ended(iterator)
            raise
        self._got(batch)
        with self._guarded():
            self.batches.loaded(iterator, batch)
        return batch

    def _handed_over(self, what: str, *about: Any) -> Any:
        """What takes the place of a batch, of a module's arguments or of targets; None if nothing does."""
        with self._guarded():
            return getattr(self.handover, what)(*about)
        return None  # it has failed

    def _is_replaced(self, source: Any) -> bool:
        """Whether a listener replaces a DataLoader or its iterator."""
        return self.batches.replays(source) or self.loaders.are_tried()

    def _in_place_of(self, source: Any) -> Any:
        """A batch that replaces the DataLoader's or its iterator's; `NO_BATCH` if nothing replaces it."""
        batch = NO_BATCH
        with self.clock.within(Phase.DATA_WAIT), self._guarded():
            batch = self.batches.batch(source) if self.batches.replays(source) else self.loaders.batch(source)
        if batch is not NO_BATCH:
            self.epochs.replaced(source)
            self._got(batch)
        return batch

    def _got(self, batch: Any) -> None:
        self._loaded_without_gradients = not torch.is_grad_enabled()
        self._tell("on_batch", batch)
        if self.clock.is_training_thread():
            self._end_steps(self.steps.batch_came())

    def _copy(self, original: Callable[..., Any], tensor: torch.Tensor, *args: Any, **options: Any) -> Any:
        """`tensor.to(device)` or `tensor.cuda()` is a copy to the device if the loop itself calls it.

        It counts on a CPU, too, where nothing is copied: then it shows when a batch would be. Parameters are not data.
        """
        by_loop = not self.clock.is_training_thread() or self.clock.phase == Phase.OTHER
        if not by_loop or isinstance(tensor, nn.Parameter) or not _names_device(original, args, options):
            return original(tensor, *args, **options)
        with self.clock.within(Phase.COPY):
            result = original(tensor, *args, **options)
        self._tell("on_copy", tensor, result)
        return result

    # Models

    def _learn(self) -> None:
        """Look at the next call of any module."""
        self._stop_learning()
        if self._installed:
            self._unlearn = self._replace(nn.Module, "__call__", self._any_forward)

    def _stop_learning(self) -> None:
        """Stop examining calls. Change the class only if needed: each change empties the method cache of modules."""
        if self._unlearn:
            self._unlearn()
            self._unlearn = None

    def _any_forward(self, original: Callable[..., Any], module: nn.Module, /, *inputs: Any, **options: Any) -> Any:
        """A module that is not called from inside another is called by the script: a model, or its loss function."""
        if self.steps.leader is None and not self.clock.is_training_thread() and is_trained(module):
            self.clock.adopt_thread()
        is_outermost = self.clock.phase not in (Phase.FORWARD, Phase.DATA_WAIT)
        takes_hooks = not isinstance(module, torch.jit.ScriptModule) and compiled_call(module) is None
        if self.clock.is_training_thread() and is_outermost and takes_hooks and self._is_new(module):
            before = module.register_forward_pre_hook(ModuleHook(self._before_forward), with_kwargs=True)
            leave = ModuleHook(lambda module, _, output: self._after_forward(module, output))
            after = module.register_forward_hook(leave, always_call=True)
            self._undo += [before.remove, after.remove]
        return original(module, *inputs, **options)

    def _is_new(self, module: nn.Module) -> bool:
        if any(module is root for root in self._roots):
            return False
        self._roots.append(module)
        return True

    def _before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the arguments that replace these, if any.

        Inside a model, nothing is examined: code compiled there must never see a global hook.

        Modules that are called while data are loaded are transforms, and belong to the loading.
        """
        if self._is_active() and self.clock.phase != Phase.DATA_WAIT and not torch.jit.is_tracing():
            self._stop_learning()
            self._see_validation(module)
            self._tell("before_forward", module, inputs, options)
            replaced = self._handed_over("inputs", module, inputs, options) if self.handover else None
            self.clock.enter(Phase.FORWARD)
            return replaced
        return None

    def _see_validation(self, module: nn.Module) -> None:
        """A trained model validates if called without gradients, in evaluation mode or on a batch loaded so."""
        if torch.is_grad_enabled():
            self._trained.add(module)
            self.clock.validate(False)
        elif module in self._trained and (self._loaded_without_gradients or not module.training):
            self.clock.validate(True, waited=self._loaded_without_gradients)

    def _leave_no_gradients(self, original: Callable[..., Any], *args: Any) -> Any:
        """Validation ends at the latest when gradients are switched on again."""
        left = original(*args)
        if torch.is_grad_enabled():
            self.clock.validate(False)
        return left

    def _after_forward(self, module: nn.Module, output: Any) -> None:
        if not self._is_active() or self.clock.phase == Phase.DATA_WAIT:
            return
        if self.clock.phase == Phase.FORWARD:
            self.clock.leave()
        self._tell("after_forward", module, output)
        if self._learning_steps < LEARNING_STEPS and self.clock.phase != Phase.FORWARD:
            self._learn()

    def _compile_in_place(self, original: Callable[..., Any], module: nn.Module, *args: Any, **options: Any) -> None:
        """`module.compile()` makes calls bypass forward hooks, so the compiled call is wrapped as well."""
        original(module, *args, **options)
        compiled = compiled_call(module)
        assert compiled

        @functools.wraps(module.forward)
        def call(*inputs: Any, **named: Any) -> Any:
            if not self._is_active():
                return compiled(*inputs, **named)
            self._is_new(module)
            return self._forward(lambda _, /, *inputs, **named: compiled(*inputs, **named), module, *inputs, **named)

        set_compiled_call(module, call)

    def _script(self, original: Callable[..., Any], scripted: Any, *args: Any, **options: Any) -> Any:
        """`torch.jit.script(module)` would compile the hooks, too."""
        modules = scripted.modules() if isinstance(scripted, nn.Module) else ()
        all_hooks = [hooks for module in modules for hooks in forward_hooks(module)]
        ours = [(hooks, key) for hooks in all_hooks for key, hook in hooks.items() if isinstance(hook, ModuleHook)]
        taken = [(hooks, key, hooks.pop(key)) for hooks, key in ours]
        try:
            return original(scripted, *args, **options)
        finally:
            for hooks, key, hook in taken:
                hooks[key] = hook

    def _forward(self, original: Callable[..., Any], module: nn.Module, /, *inputs: Any, **options: Any) -> Any:
        """Call a module that takes no hooks, such as a TorchScript one, and do their work before and after."""
        inputs, options = self._before_forward(module, inputs, options) or (inputs, options)
        output = None
        try:
            output = original(module, *inputs, **options)
            return output
        finally:
            self._after_forward(module, output)

    def _loss(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        targets = args[1] if len(args) > 1 else options.get("target")
        if self.handover and isinstance(targets, torch.Tensor):
            targets = self._handed_over("targets", targets)
            if targets is not None and len(args) > 1:
                args = (args[0], targets, *args[2:])
            elif targets is not None:
                options = options | {"target": targets}
        with self.clock.within(Phase.FORWARD):
            loss = original(*args, **options)
        self._tell("on_loss", original, args, options, loss)
        return loss

    def _backward(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if args and isinstance(args[0], Iterator):  # a generator can be gone through only once
            args = (tuple(args[0]), *args[1:])
        tensors = args[0] if args else options.get("tensors", options.get("outputs", ()))
        first = tensors[0] if isinstance(tensors, tuple | list) and tensors else tensors
        if is_traced(first):  # torch.compile traces one of its own, unless its cache has it
            return original(*args, **options)
        self._tell("on_backward", tensors)
        in_optimizer = self.clock.phase == Phase.OPTIMIZER
        try:
            with self.clock.within(Phase.BACKWARD):
                return original(*args, **options)
        finally:
            self._tell("after_backward")
            if self.clock.is_training_thread():
                self._end_steps(self.steps.backward_ended(in_optimizer))

    # Optimizers

    def _beside_step(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Whatever is done with gradients before and after an optimizer's step belongs to it."""
        with self.clock.within(Phase.OPTIMIZER):
            return original(*args, **options)

    def _adapt(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self._tell("on_adaptive_schedule")
        return original(*args, **options)

    def _before_optimizer(self, optimizer: Optimizer, *_: Any) -> None:
        if self._is_active():
            if self.clock.phase == Phase.BACKWARD:  # one for each parameter, as its gradient comes
                return
            if self._sharded and optimizer is inner_optimizer(self._sharded):
                return
            self._sharded = optimizer if inner_optimizer(optimizer) is not optimizer else None
            if self.steps.optimizer_begins(optimizer):
                self.clock.adopt_thread()
            self.clock.validate(False)
            self._tell("before_optimizer", optimizer)
            self.clock.enter(Phase.OPTIMIZER)

    def _after_optimizer(self, optimizer: Optimizer, *_: Any) -> None:
        if not self._is_active() or self.clock.phase == Phase.BACKWARD:
            return
        if self._sharded and optimizer is inner_optimizer(self._sharded):
            return
        self.clock.leave_all(Phase.OPTIMIZER)  # an earlier step that has raised an exception never came here
        self._tell("after_optimizer", optimizer)
        if self.clock.is_training_thread():
            leader = self.steps.leader
            self._end_steps(self.steps.optimizer_stepped(optimizer))
            if self.steps.leader is not leader:
                self._learning_steps = 0  # there may be other models, too
                self._learn()

    def _end_steps(self, steps: int) -> None:
        if steps:
            self._learning_steps += 1
            self._tell("on_step_end", steps)


def is_trained(module: nn.Module) -> bool:
    """Return whether a call of this module is part of training: it has parameters, and gradients are enabled."""
    return torch.is_grad_enabled() and any(parameter.requires_grad for parameter in module.parameters())


def _names_device(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether a call of `Tensor.to` or `Tensor.cuda` names a device."""
    named = (isinstance(argument, (str, torch.device)) or type(argument) is int for argument in args)
    return function.__name__ == "cuda" or "device" in options or any(named)
