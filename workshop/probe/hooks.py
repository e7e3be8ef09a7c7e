"""The one set of hooks into a training loop: it cuts each step into phases and tells listeners what happens.

It rests on what PyTorch offers (hooks around optimizer steps and modules) and wraps the few functions that have no
hooks: DataLoader iteration, loss functions, `backward`, `.to(device)` and `module.compile()`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

from workshop.probe.audience import Audience
from workshop.probe.gradient_scalers import GradientScalers
from workshop.probe.internals import fetcher_class, is_traced, loader_iterators
from workshop.probe.item_addresses import Addresses
from workshop.probe.listener import Listener
from workshop.probe.loader_hooks import LoaderHooks
from workshop.probe.log import log
from workshop.probe.messages import SetStage, Synchronized, WarmUp
from workshop.probe.model_hooks import ModelHooks
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


class TrainingHooks:
    """The hooks, for the process that makes them and its training thread.

    Args:
        listeners: hear of the training.
        addresses: notes by which indexes each batch was asked for; None if nobody wants to know.

    Attributes:
        audience: the listeners.
        clock: cuts the time of the training thread into phases.
        loading: the hooks into DataLoaders.
        models: the hooks into modules.
        steps: counts the training steps.
        scalers: the gradient scalers of the script.
    """

    def __init__(self, *listeners: Listener, addresses: Addresses | None = None) -> None:
        self._addresses = addresses
        self.audience = Audience(listeners, self._give_up, self._go_on_in_fork)
        self.clock = PhaseClock()
        self.steps = StepCounter()
        self.loading = LoaderHooks(self.clock, self.audience, self._after_batch, lambda: self.models.evaluates)
        self.models = ModelHooks(self.clock, self.audience, lambda: self.steps.leader is not None, self.loading)
        self.scalers = GradientScalers()
        self._undo: list[Callable[[], None]] = []
        self._seen_step: Optimizer | None = None  # that has stepped last
        self._sharded: Optimizer | None = None  # that steps, or has stepped last, with another one inside

    def install(self) -> None:
        """Install every hook and wrapper."""
        self._wrap(torch.jit.RecursiveScriptModule, "__call__", self.models.call)
        self.models.install()
        self._undo.append(register_optimizer_step_pre_hook(self._before_optimizer).remove)
        self._undo.append(register_optimizer_step_post_hook(self._after_optimizer).remove)
        self._wrap(torch.autograd, "backward", self._backward)
        self._wrap(torch.autograd, "grad", self._backward)
        beside_step = partial(self.clock.call, Phase.OPTIMIZER)  # what is done with gradients before and after it
        for owner in (Optimizer, nn.Module):
            self._wrap(owner, "zero_grad", beside_step)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._wrap(nn.utils, name, beside_step)
        self._wrap(torch.amp.GradScaler, "__init__", self._make_scaler, is_made=True)
        self._wrap(torch.amp.GradScaler, "step", self._scaled_step)
        self._wrap(torch.amp.GradScaler, "update", self._update_scaler)
        self._wrap(lr_scheduler.ReduceLROnPlateau, "step", self._adapt)
        for name in LOSSES:
            self._wrap(nn.functional, name, self._loss)
        for name in ("to", "cuda"):
            self._wrap(torch.Tensor, name, self._copy)
        self._wrap(nn.Module, "compile", self.models.compile_in_place, is_made=True)
        self._wrap(torch.jit, "script", self.models.script, is_made=True)
        for no_gradients in (torch.no_grad, torch.inference_mode):
            self._wrap(no_gradients, "__exit__", self._leave_no_gradients)
        self._wrap(DataLoader, "__iter__", self._iterate)
        for kind in loader_iterators()[1:]:
            self._wrap(kind, "__next__", self.loading.load)
        if self._addresses:
            self._wrap(loader_iterators()[0], "_next_index", self._addresses.ask)
            fetch = partial(self._addresses.fetch, fetcher_class().fetch)
            self._undo.append(replace_function(fetcher_class(), "fetch", lambda *of: fetch(*of)))  # in workers, too
        log("the hooks into the training are in place")

    def remove(self) -> None:
        """Remove every hook and wrapper. Modules that were compiled in place stay wrapped."""
        self.models.remove()
        while self._undo:
            self._undo.pop()()

    def _wrap(self, owner: Any, name: str, by: Callable[..., Any], is_made: bool = False) -> None:
        """Replace a function by `by(original, *args, **options)`, until the hooks are removed.

        What `is_made` by it may be made before the training is looked at.
        """
        original, is_script = getattr(owner, name), self.audience.is_own if is_made else self.audience.is_script

        def wrapper(*args: Any, **options: Any) -> Any:
            return by(original, *args, **options) if is_script() else original(*args, **options)

        wrapper.__prepare_scriptable__ = lambda: original  # type: ignore[attr-defined]  # what TorchScript compiles
        self._undo.append(replace_function(owner, name, wrapper))

    def _go_on_in_fork(self) -> None:
        self.steps = StepCounter()
        self.loading.go_on_in_fork()
        self.clock.adopt_thread()
        self.clock.restart()
        self.models.learn(anew=True)

    def _give_up(self) -> None:
        self.remove()
        self.loading.begin_stage(WarmUp())

    def begin_stage(self, stage: SetStage) -> None:
        """Go on to another stage of a measurement."""
        self.clock.synchronize = isinstance(stage, Synchronized)
        self.loading.begin_stage(stage)
        self.audience.tell("on_stage", stage)

    # Loading

    def _iterate(self, original: Callable[..., Any], loader: Any) -> Any:
        """Another model may be validated than the one that is trained, such as its averaged copy."""
        if not torch.is_grad_enabled():
            self.models.learn()
        return self.loading.iterate(original, loader)

    def _after_batch(self) -> None:
        if self.clock.is_training_thread():
            self._end_steps(self.steps.batch_came())

    def _leave_no_gradients(self, original: Callable[..., Any], *args: Any) -> Any:
        """Validation ends at the latest when gradients are switched on again."""
        left = original(*args)
        if torch.is_grad_enabled() and not self.loading.in_evaluation:
            self.clock.validate(False)
        return left

    def _copy(self, original: Callable[..., Any], tensor: torch.Tensor, *args: Any, **options: Any) -> Any:
        """`tensor.to(device)` or `tensor.cuda()` is a copy to the device if the loop itself calls it.

        It counts on a CPU, too, where nothing is copied: then it shows when a batch would be. Parameters are not data.
        """
        by_loop = not self.clock.is_training_thread() or self.clock.phase is Phase.OTHER
        if not by_loop or isinstance(tensor, nn.Parameter) or not _names_device(original, args, options):
            return original(tensor, *args, **options)
        result = self.clock.call(Phase.COPY, original, tensor, *args, **options)
        self.audience.tell("on_copy", tensor, result)
        return result

    # Losses and gradients

    def _loss(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        targets = args[1] if len(args) > 1 else options.get("target")
        if isinstance(targets, torch.Tensor) and (other := self.audience.handed_over("targets", targets)) is not None:
            if len(args) > 1:
                args = (args[0], other, *args[2:])
            else:
                options = options | {"target": other}
        loss = self.clock.call(Phase.FORWARD, original, *args, **options)
        self.audience.tell("on_loss", original, args, options, loss)
        return loss

    def _backward(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        name = "tensors" if "tensors" in options else "outputs"  # of `backward`, and of `grad`
        tensors = args[0] if args else options.get(name, ())
        if isinstance(tensors, Iterator):  # a generator can be gone through only once
            tensors = tuple(tensors)
            args, options = ((tensors, *args[1:]), options) if args else (args, options | {name: tensors})
        first = tensors[0] if isinstance(tensors, tuple | list) and tensors else tensors
        if is_traced(first):  # torch.compile traces one of its own, unless its cache has it
            return original(*args, **options)
        self.audience.tell("on_backward", tensors)
        in_optimizer = self.clock.phase is Phase.OPTIMIZER
        try:
            return self.clock.call(Phase.BACKWARD, original, *args, **options)
        finally:
            self.audience.tell("after_backward")
            is_part = in_optimizer and _creates_graph(original, args, options)  # of a closure, whose last pass ends it
            if self.clock.is_training_thread() and not is_part:
                self._end_steps(self.steps.backward_ended(in_optimizer))

    # Optimizers

    def _adapt(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.audience.tell("on_adaptive_schedule")
        return original(*args, **options)

    def _is_seen(self, optimizer: Optimizer) -> bool:
        """Whether a step of an optimizer is one of the training."""
        if not self.audience.is_script() or self.clock.phase is Phase.BACKWARD:  # there, one for each parameter
            return False
        return self._sharded is None or optimizer is not inner_optimizer(self._sharded)

    def _before_optimizer(self, optimizer: Optimizer, *_: Any) -> None:
        if self._is_seen(optimizer):
            self._sharded = optimizer if inner_optimizer(optimizer) is not optimizer else None
            if self.steps.optimizer_begins(optimizer):
                self.clock.adopt_thread()
            self.clock.validate(False)
            self.audience.tell("before_optimizer", optimizer)
            self.clock.enter(Phase.OPTIMIZER)

    def _after_optimizer(self, optimizer: Optimizer, *_: Any) -> None:
        if not self._is_seen(optimizer):
            return
        self._seen_step = optimizer
        self.clock.leave_all(Phase.OPTIMIZER)  # an earlier step that has raised an exception never came here
        self.audience.tell("after_optimizer", optimizer)
        if self.clock.is_training_thread():
            leader = self.steps.leader
            self._end_steps(self.steps.optimizer_stepped(optimizer))
            if self.steps.leader is not leader:
                self.models.learn(anew=True)

    def _make_scaler(self, original: Callable[..., Any], scaler: Any, *args: Any, **options: Any) -> None:
        original(scaler, *args, **options)
        with self.audience:
            self.scalers.add(scaler)

    def _update_scaler(self, original: Callable[..., Any], *args: Any, **options: Any) -> None:
        original(*args, **options)
        with self.audience:
            self.scalers.after_update()

    def _scaled_step(
        self, original: Callable[..., Any], scaler: Any, optimizer: Any, *args: Any, **options: Any
    ) -> Any:
        """A scaler leaves out a step whose gradients are not finite, and the optimizer never hears of it."""
        self._seen_step = None
        result = original(scaler, optimizer, *args, **options)
        if self._seen_step is None:
            self.audience.tell("on_skipped_step", optimizer)
        return result

    def _end_steps(self, steps: int) -> None:
        if steps:
            self.models.step_ended()
            self.audience.tell("on_step_end", steps)


def _creates_graph(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether a call is one of `grad` that makes gradients for a later pass."""
    return function.__name__ == "grad" and bool(options.get("create_graph") or any(args[4:5]))


def _names_device(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether a call of `Tensor.to` or `Tensor.cuda` names a device."""
    named = (isinstance(argument, (str, torch.device)) or type(argument) is int for argument in args)
    return function.__name__ == "cuda" or "device" in options or any(named)
