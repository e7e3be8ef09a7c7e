"""The hooks into the models of a training: the modules that the script itself calls, however they are compiled."""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from weakref import WeakSet

import torch
from torch import nn

from workshop.probe.audience import Audience
from workshop.probe.internals import compiled_call, forward_hooks, set_compiled_call
from workshop.probe.loader_hooks import LoaderHooks
from workshop.probe.phase_clock import PhaseClock
from workshop.probe.phases import Phase
from workshop.probe.replaced_function import replace_function

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


class ModelHooks:
    """What is done before and after each call of a module by the script.

    Inside a model, nothing is examined: code compiled there must never see a global hook. Modules that are called while
    data are loaded are transforms, and belong to the loading.

    Args:
        clock: cuts the time of the training thread into phases.
        audience: is told.
        has_stepped: returns whether an optimizer has.
        loading: knows whether the last batch was loaded to validate.
    """

    def __init__(
        self,
        clock: PhaseClock,
        audience: Audience,
        has_stepped: Callable[[], bool],
        loading: LoaderHooks,
    ) -> None:
        self._clock, self._audience = clock, audience
        self._has_stepped, self._loading = has_stepped, loading
        self._roots: WeakSet[nn.Module] = WeakSet()
        self._trained: WeakSet[nn.Module] = WeakSet()
        self._trained_in_mode: WeakSet[nn.Module] = WeakSet()
        self._is_installed, self._learning_steps = False, 0
        self._unlearn: Callable[[], None] | None = None
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        """Begin to look for modules that the script calls."""
        self._is_installed = True
        self.learn()

    def learn(self, anew: bool = False) -> None:
        """Look at the next call of any module; `anew`, also in the steps to come: there may be other models, too."""
        self._stop_learning()
        if not self._is_installed:
            return
        if anew:
            self._learning_steps = 0

        # torch.profiler, where it records stacks, takes what is called `self` here for the module.
        def call(self: nn.Module, /, *inputs: Any, **options: Any) -> Any:
            if is_script():
                examine(self)
            return original(self, *inputs, **options)

        original, is_script, examine = nn.Module.__call__, self._audience.is_script, self._examine
        self._unlearn = replace_function(nn.Module, "__call__", call)

    def _stop_learning(self) -> None:
        """Stop examining calls. Change the class only if needed: each change empties the method cache of modules."""
        if self._unlearn:
            self._unlearn()
            self._unlearn = None

    def step_ended(self) -> None:
        """A step is over."""
        self._learning_steps += 1

    def remove(self) -> None:
        """Remove the hooks from all modules. Those that were compiled in place stay wrapped."""
        self._is_installed = False
        self._stop_learning()
        while self._undo:
            self._undo.pop()()

    def _examine(self, module: nn.Module) -> None:
        """A module that is not called from inside another is called by the script: a model, or its loss function."""
        if not self._has_stepped() and not self._clock.is_training_thread() and is_trained(module):
            self._clock.adopt_thread()
        is_outermost = self._clock.phase not in (Phase.FORWARD, Phase.DATA_WAIT)
        takes_hooks = not isinstance(module, torch.jit.ScriptModule) and compiled_call(module) is None
        if self._clock.is_training_thread() and is_outermost and takes_hooks and self._is_new(module):
            before = module.register_forward_pre_hook(ModuleHook(self._before), with_kwargs=True)
            after = module.register_forward_hook(ModuleHook(self._after), always_call=True)
            self._undo += [before.remove, after.remove]

    def _is_new(self, module: nn.Module) -> bool:
        if module in self._roots:
            return False
        self._roots.add(module)
        return True

    def _before(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the arguments that replace these, if any."""
        if not self._audience.is_script() or self._clock.phase is Phase.DATA_WAIT or torch.jit.is_tracing():
            return None
        self._stop_learning()
        self._see_validation(module)
        self._audience.tell("before_forward", module, inputs, options)
        replaced = self._audience.handed_over("inputs", module, inputs, options)
        self._clock.enter(Phase.FORWARD)
        return replaced

    @property
    def evaluates(self) -> bool:
        """Whether a model that was called with gradients in training mode is in evaluation mode now."""
        return any(not module.training for module in self._trained_in_mode)

    def _see_validation(self, module: nn.Module) -> None:
        """A trained model validates if called without gradients, in evaluation mode or on a batch loaded so."""
        if torch.is_grad_enabled():
            self._trained.add(module)
            self._clock.validate(False)
            if module.training and is_trained(module):
                self._trained_in_mode.add(module)
                self._loading.trained()
        elif module in self._trained and (self._loading.of_validation or not module.training):
            self._clock.validate(True, waited=self._loading.of_validation)

    def _after(self, module: nn.Module, _: Any, output: Any) -> None:
        if not self._audience.is_script() or self._clock.phase is Phase.DATA_WAIT:
            return
        if self._clock.phase is Phase.FORWARD:
            self._clock.leave()
        self._audience.tell("after_forward", module, output)
        if self._learning_steps < LEARNING_STEPS and self._clock.phase is not Phase.FORWARD:
            self.learn()

    def call(self, original: Callable[..., Any], module: nn.Module, /, *inputs: Any, **options: Any) -> Any:
        """Call a module that takes no hooks, such as a TorchScript one, and do their work before and after."""
        inputs, options = self._before(module, inputs, options) or (inputs, options)
        output = None
        try:
            output = original(module, *inputs, **options)
            return output
        finally:
            self._after(module, inputs, output)

    def compile_in_place(self, original: Callable[..., Any], module: nn.Module, *args: Any, **options: Any) -> None:
        """`module.compile()` makes calls bypass forward hooks, so the compiled call is wrapped as well."""
        original(module, *args, **options)
        compiled = compiled_call(module)
        assert compiled

        @functools.wraps(module.forward)
        def call(*inputs: Any, **named: Any) -> Any:
            if not self._audience.is_script():
                return compiled(*inputs, **named)
            self._is_new(module)
            return self.call(lambda _, /, *inputs, **named: compiled(*inputs, **named), module, *inputs, **named)

        set_compiled_call(module, call)

    def script(self, original: Callable[..., Any], obj: Any, *args: Any, **options: Any) -> Any:
        """`torch.jit.script(module)` would compile the hooks, too."""
        modules = obj.modules() if isinstance(obj, nn.Module) else ()
        all_hooks = [hooks for module in modules for hooks in forward_hooks(module)]
        ours = [(hooks, key) for hooks in all_hooks for key, hook in hooks.items() if isinstance(hook, ModuleHook)]
        taken = [(hooks, key, hooks.pop(key)) for hooks, key in ours]
        try:
            return original(obj, *args, **options)
        finally:
            for hooks, key, hook in taken:
                hooks[key] = hook


def is_trained(module: nn.Module) -> bool:
    """Return whether a call of this module is part of training: it has parameters, and gradients are enabled.

    A class may have a `parameters` of its own, which returns something else, such as groups for an optimizer.
    """
    return torch.is_grad_enabled() and any(each.requires_grad for each in nn.Module.parameters(module))
