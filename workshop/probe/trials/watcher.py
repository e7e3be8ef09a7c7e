"""What watches or tries something in some steps of a training, and has it race against the script as it is."""

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.cause import TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.listener import Listener
from workshop.probe.model_hooks import ModuleHook
from workshop.probe.noted_settings import optimizer_site
from workshop.probe.observations import Trial, WireFrame
from workshop.probe.optimizers import parameters_of
from workshop.probe.stack_sampler import called_by_user
from workshop.probe.trials import declare
from workshop.probe.trials.copies import copied_arguments, ensure_room, of_one_process
from workshop.probe.trials.trial_race import NothingToTryError, Pass, race, random_states_kept, why_not

Passes: TypeAlias = Iterator[Pass] | Generator[Pass, None, str]
"""Two passes, unchanged and changed, and perhaps what was changed to, in words.

To begin, or to go on to the next, may raise `NothingToTryError`. What was changed is put back in the end.
"""

ModelPasses: TypeAlias = Callable[[nn.Module, Any, Any], Passes]
OptimizerPasses: TypeAlias = Callable[[Optimizer], Passes]
Declared = TypeVar("Declared", bound=Callable[..., Any])

ENOUGH = 4
"""Times, at least, that something must be seen to be taken for what the script always does."""

MIN_WASTED = 0.2
"""Share of what goes in, at least, that must be of no use, such as padding, to be worth a trial."""


class Watcher(Listener):
    """Hears of the steps from when it is made until its end, and notes what it finds."""

    def __init__(self, events: EventFile) -> None:
        self.events = events
        self.steps = 0  # that are over
        self.handles: dict[nn.Module, Any] = {}  # of hooks, which are removed in the end
        self.tried: set[object] = set()

    def end(self) -> None:
        """Note what is known only now, and undo what was changed in the script."""
        for handle in self.handles.values():
            handle.remove()

    def on_step_end(self, steps: int) -> None:
        """Count the step."""
        self.steps += 1

    def guarded(self, do: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what the script itself calls, such as a hook of a module, so that it raises nothing there."""

        def guard(*about: Any) -> Any:
            try:
                return do(*about)
            except Exception as error:
                return self.events.lose(error)

        return guard

    def hear(self, model: nn.Module, kind: type[nn.Module], do: Callable[..., Any], before: bool = False) -> None:
        """Have a function called after each call of the modules of a kind in a model, or before it."""
        for each in model.modules():
            takes_hooks = each not in self.handles and not isinstance(each, torch.jit.ScriptModule)
            if isinstance(each, kind) and takes_hooks:
                register = each.register_forward_pre_hook if before else each.register_forward_hook
                self.handles[each] = register(ModuleHook(self.guarded(do)))

    def on_fault(self, fault: str) -> None:
        """Undo what was changed, as nothing more is heard."""
        self.end()

    def gives_up_alone(self, error: Exception) -> bool:
        """Let the other watchers, and what times the steps, go on."""
        self.events.lose(error)
        with suppress(Exception):
            self.end()
        return True

    def race(
        self,
        cause: TriedCause,
        passes: Callable[[], Passes],
        about: str,
        stack: Sequence[WireFrame] = (),
        times: float = 1.0,
        leads_on: bool = False,
        usual_s: float = 0.0,
    ) -> None:
        """Let the two passes that `passes` makes take turns, and note the result, or why there is none.

        Args:
            cause: what is tried.
            passes: makes the two passes.
            about: what is changed.
            stack: the user's frames that it is about; the passes may add them to a list.
            times: how often a step has such a pass.
            leads_on: see `Trial`.
            usual_s: the seconds of a pass as it was timed in the training; 0 for the median of those here.
        """
        try:
            with warnings.catch_warnings(), random_states_kept():
                warnings.simplefilter("ignore")
                made = passes()
                try:
                    result = race(next(made), next(made))
                    setting = _rest_of(made)
                finally:
                    if isinstance(made, Generator):
                        made.close()  # what was changed is put back
            noted = {"about": about, "stack": tuple(stack), "times": times, "setting": setting, "leads_on": leads_on}
            result = replace(result, usual_s=usual_s or result.usual_s)
            self.events.write(Trial, name=cause.name, **vars(result), **noted)
        except Exception as error:  # models that cannot be copied fail in many ways
            why, applies = why_not(error), not isinstance(error, NothingToTryError)
            seconds = {"as_it_is_s": 0.0, "changed_s": 0.0}
            self.events.write(Trial, name=cause.name, **seconds, error=why, applies=applies, about=about)


def _rest_of(passes: Passes) -> str:
    """Let a trial end, and return what it says."""
    try:
        next(passes)
    except StopIteration as end:
        return end.value or ""
    return ""


class ModelTrial(Watcher):
    """Tries something once with a call of a model, on a copy."""

    def __init__(
        self, cause: TriedCause, passes: ModelPasses, once_a_step: bool, in_validation: bool, events: EventFile
    ) -> None:
        super().__init__(events)
        self._cause, self._passes = cause, passes
        self._once_a_step, self._in_validation = once_a_step, in_validation

    def before_model(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float) -> None:
        """Try it in the training."""
        if not self._in_validation:
            self.attempt(module, inputs, options, 1.0 if self._once_a_step else times)

    def before_validation(
        self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float
    ) -> None:
        """Try it in a validation, if it is the script that decides how the model is called."""
        if self._in_validation and not torch.is_inference_mode_enabled() and called_by_user():
            self.attempt(module, inputs, options, times)

    def attempt(self, module: nn.Module, inputs: Any, options: Any, times: float = 1.0) -> None:
        """Race both passes with a model that is called so often in a step, unless that was done."""
        if self.tried:
            return
        self.tried.add(self._cause.name)

        def passes() -> Passes:
            ensure_room(module.parameters(), 6)  # two copies with gradients, and what passes make
            given, given_options = copied_arguments(inputs, options)
            return self._passes(of_one_process(module), given, given_options)

        self.race(self._cause, passes, about=type(module).__name__, times=times)


class OptimizerTrial(Watcher):
    """Tries something once with an optimizer that is about to step, on a copy."""

    def __init__(self, cause: TriedCause, passes: OptimizerPasses, events: EventFile) -> None:
        super().__init__(events)
        self._cause, self._passes = cause, passes

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Try it."""
        if self.tried:
            return
        self.tried.add(self._cause.name)

        def passes() -> Passes:
            ensure_room(parameters_of(optimizer), 10)  # two copies with gradients and states, and what passes make
            return self._passes(optimizer)

        self.race(self._cause, passes, about=type(optimizer).__name__, stack=optimizer_site(optimizer))


def watches_for(*causes: TriedCause) -> Callable[[Declared], Declared]:
    """Declare the causes that a class of watchers tries."""

    def declared(watcher: Declared) -> Declared:
        declare(watcher, *causes)
        return watcher

    return declared


def of_model(
    cause: TriedCause, once_a_step: bool = False, in_validation: bool = False
) -> Callable[[Declared], Declared]:
    """Declare a cause that a function tries: it gets a model, which it must not change, and copies of the arguments.

    Args:
        cause: the cause.
        once_a_step: whether a pass has something that a step does once, however often it calls the model.
        in_validation: whether it is tried with a call in a validation, not in the training.
    """

    def declared(passes: Declared) -> Declared:
        declare(partial(ModelTrial, cause, passes, once_a_step, in_validation), cause)
        return passes

    return declared


def of_optimizer(cause: TriedCause) -> Callable[[Declared], Declared]:
    """Declare a cause that a function tries: it gets an optimizer, which it must not change."""

    def declared(passes: Declared) -> Declared:
        declare(partial(OptimizerTrial, cause, passes), cause)
        return passes

    return declared
