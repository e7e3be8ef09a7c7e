"""What watches or tries something in some steps of a training, and has it race against the script as it is."""

import warnings
from collections.abc import Callable, Generator, Iterator
from typing import Any, ClassVar, TypeAlias

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.cause import TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.listener import Listener
from workshop.probe.observations import Trial, WireFrame
from workshop.probe.optimizers import parameters_of
from workshop.probe.trials.copies import copied_arguments, of_one_process
from workshop.probe.trials.copy_room import ensure_room
from workshop.probe.trials.trial_race import NothingToTryError, Pass, race, random_states_kept, why_not

Passes: TypeAlias = Iterator[Pass] | Generator[Pass, None, str]
"""Two passes, unchanged and changed, and perhaps what was changed to, in words.

To begin, or to go on to the next, may raise `NothingToTryError`. What was changed is put back in the end.
"""

ENOUGH = 4
"""The number of times that something must be seen before it is taken for what the script always does."""


class Watcher(Listener):
    """Hears of the steps from when it is made until its end, and notes what it finds."""

    causes: ClassVar[tuple[TriedCause, ...]] = ()
    """The causes that it tries, declared beside it."""

    def __init__(self, events: EventFile) -> None:
        self.events = events

    def end(self) -> None:
        """Note what is known only now, and undo what was changed in the script."""

    def before_model(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float) -> None:
        """The first model that is trained is about to be called with gradients, as it is so often in a step."""

    def before_validation(
        self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float
    ) -> None:
        """A model is about to be called in a validation, as models are so often in a step."""

    def on_pageable_copy(self, tensor: torch.Tensor, device: torch.device, has_workers: bool) -> None:
        """The loop has copied a tensor to a GPU from memory that is not pinned, the largest one so far."""

    def race(
        self,
        cause: TriedCause,
        passes: Callable[[], Passes],
        about: str,
        stack: tuple[WireFrame, ...] = (),
        times: float = 1.0,
        leads_on: bool = False,
    ) -> None:
        """Let the two passes that `passes` makes take turns, and note the result, or why there is none."""
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
            noted = {"about": about, "stack": stack, "times": times, "setting": setting, "leads_on": leads_on}
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
    """Tries something once with a call of the model, on a copy of it."""

    is_once_a_step: ClassVar = False
    """Whether a pass has something that a step does once, however often it calls the model."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self.is_tried = False

    @staticmethod
    def passes(model: nn.Module, inputs: Any, options: Any) -> Passes:
        """Yield two passes on copies of a model, which is not to be changed; the arguments are copies."""
        raise NotImplementedError

    def before_model(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float) -> None:
        """Try it."""
        self.attempt(module, inputs, options, 1.0 if self.is_once_a_step else times)

    def attempt(self, module: nn.Module, inputs: Any, options: Any, times: float = 1.0) -> None:
        """Race both passes with a model that is called so often in a step, unless that was done."""
        if self.is_tried:
            return
        self.is_tried = True

        def passes() -> Passes:
            ensure_room(module.parameters(), 6)  # two copies with gradients, and what passes make
            given, given_options = copied_arguments(inputs, options)
            return self.passes(of_one_process(module), given, given_options)

        self.race(self.causes[0], passes, about=type(module).__name__, times=times)


class OptimizerTrial(Watcher):
    """Tries something once with an optimizer that is about to step, on a copy of it."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self.is_tried = False

    def passes(self, optimizer: Optimizer) -> Passes:
        """Yield two passes on copies of an optimizer."""
        raise NotImplementedError

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Try it."""
        if self.is_tried:
            return
        self.is_tried = True

        def passes() -> Passes:
            ensure_room(parameters_of(optimizer), 10)  # two copies with gradients and states, and what passes make
            return self.passes(optimizer)

        self.race(self.causes[0], passes, about=type(optimizer).__name__)
