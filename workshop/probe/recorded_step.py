"""One training step, recorded as it is taken: all that it depends on, and what came of it."""

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.batch_use import BatchUse
from workshop.probe.gradient_scalers import leaves_out
from workshop.probe.internals import has_compiled, tree_map_with_names
from workshop.probe.random_states import random_states
from workshop.probe.sharding import whole
from workshop.probe.training_state import TrainingState, clones, settings_of


def _timed(do: Callable[..., None]) -> Callable[..., None]:
    """Make the time of a recorder's method no part of the step."""

    @functools.wraps(do)
    def timed(recorder: "StepRecorder", *about: Any) -> None:
        begin = monotonic()
        do(recorder, *about)
        took_s = monotonic() - begin
        recorder.seconds += took_s
        recorder.leave_out(took_s)

    return timed


class StepRecorder:
    """Records the one step of an epoch that the judge asks for.

    Args:
        folder: for the files of the steps.
        sample_step: the number of the step in its epoch, from 0; None for no step.
        leave_out: told how long each part of the recording took, right after it.
    """

    def __init__(self, folder: Path, sample_step: int | None, leave_out: Callable[[float], None]) -> None:
        self.folder, self.sample_step, self.leave_out = folder, sample_step, leave_out
        self.seconds = 0.0  # that the recording took
        self.number = 0  # of the files
        self.record: dict[str, Any] = {}  # what is recorded so far; empty between steps

    def wants(self, step: int) -> bool:
        """Return whether that step of the epoch is the one."""
        return step == self.sample_step

    @_timed
    def note_beginning(self, state: TrainingState | None = None) -> None:
        """Note the random generators as the step begins, or as its batch comes, before a model is called.

        As the step begins, note the buffers, too, as the step before has left them.
        """
        if "before" not in self.record:
            self.record["random"] = random_states()
        if state is not None:
            self.record["left"] = clones(state.buffers)

    @_timed
    def enter(self, which: int, tensors: list[torch.Tensor], state: TrainingState) -> None:
        """Copy what enters a model, given its number, and the random states; at first, what the step begins with."""
        if "before" not in self.record:
            device = next(iter(tensors), torch.empty(0)).device.type
            autocast = torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
            self.record.setdefault("random", random_states())
            self.record |= {"before": state.copy(), "autocast": (device, *autocast)}
            self.record |= {"inputs": [], "targets": [], "losses": [], "settings": {}, "gradients": {}}
        inputs = [None if each.requires_grad else each.detach().clone() for each in tensors]
        self.record["inputs"].append((which, inputs, random_states()))

    @_timed
    def on_loss(self, targets: torch.Tensor) -> None:
        """Copy the targets that a loss function gets."""
        if "before" in self.record:
            self.record["targets"].append(None if targets.requires_grad else targets.detach().clone())

    @_timed
    def on_backward(self, loss: Any) -> None:
        """Copy the loss."""
        if "before" in self.record and isinstance(loss, torch.Tensor):
            self.record["losses"].append(loss.detach().clone())

    @_timed
    def before_optimizer(self, optimizer: Optimizer, state: TrainingState) -> None:
        """Copy the settings of an optimizer that is about to step."""
        if "before" in self.record:
            self.record["settings"] |= settings_of(optimizer, state.parameters)

    @_timed
    def after_optimizer(self, optimizer: Optimizer, state: TrainingState) -> None:
        """Copy the gradients that an optimizer has stepped with; a closure computes them in the step itself."""
        if "before" in self.record:
            note_gradients(self.record["gradients"], optimizer, state)

    @_timed
    def after_step(self, state: TrainingState, batches: BatchUse, is_whole: bool) -> None:
        """Copy some values of what became of all tensors, and the batches that the step was taken with.

        The step `is_whole` if it lasts until the next batch is asked for, and else until the optimizer has stepped.

        A step in which more models turned up than it began with is not recorded whole.
        """
        if "before" in self.record and len(self.record["before"]["parameters"]) == len(state.parameters):
            after = {"after": state.some_values(), "buffers_after": clones(state.buffers)}
            leaves, addresses = batches.recorded()
            known = [(each.dataset, each.indexes, each.seed) for each in addresses if each]
            self.record |= {"batches": leaves, "addresses": known if len(known) == len(leaves) else []}
            self.record |= {"is_compiled": has_compiled(), "is_whole": is_whole, "copied": state.copied, **after}

    def save(self) -> str | None:
        """Write the record, if there is a whole one, and return its file's name."""
        record, self.record = self.record, {}
        if "after" not in record or not record["losses"]:
            return None
        self.number += 1
        path = self.folder / f"step-{os.getpid()}-{self.number}.pt"
        torch.save(record, path)
        return str(path)


def gradients_of(
    optimizer: Optimizer, state: TrainingState, scale: float | torch.Tensor = 1.0
) -> dict[int, torch.Tensor]:
    """Return copies of the gradients of an optimizer's parameters, by their numbers, without the scale that they have.

    There are none where the optimizer finds out in its own step that they are not finite.
    """
    return {
        number: whole(parameter.grad.detach()) / scale
        for number, parameter in enumerate(state.parameters)
        if parameter.grad is not None and state.owners.get(parameter) is optimizer and not leaves_out(optimizer)
    }


def note_gradients(
    noted: dict[int, list[torch.Tensor | None]],
    optimizer: Optimizer,
    state: TrainingState,
    scale: float | torch.Tensor = 1.0,
    again: bool = False,
) -> None:
    """Add copies of the gradients of an optimizer's parameters to those of its earlier steps in the same training step.

    The critic of a GAN may step several times before the generator does. `again` replaces those that were added last.
    """
    found = gradients_of(optimizer, state, scale)
    for number, parameter in enumerate(state.parameters):
        if state.owners.get(parameter) is optimizer:
            of_parameter = noted.setdefault(number, [])
            of_parameter[len(of_parameter) - again :] = [found.get(number)]


def tensors_in_call(model: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors among the arguments of a model: in the order of its signature, in a mapping by key."""
    if not options and all(isinstance(each, torch.Tensor) for each in inputs):
        return list(inputs)
    found: dict[str, torch.Tensor] = {}

    def note(name: str, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            found[name] = leaf

    map_tensors(model, inputs, options, note)
    return [found[name] for name in sorted(found)]


def map_tensors(
    model: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], change: Callable[[str, Any], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a model's arguments with something made of each thing in them.

    `change` is given a name, by whose alphabetical order the things are in the order of the signature.
    """
    parameters = list(inspect.signature(model.forward).parameters) if options else []
    named = sorted(options, key=lambda name: parameters.index(name) if name in parameters else len(parameters))

    def of(place: int, value: Any) -> Any:
        return tree_map_with_names(lambda name, leaf: change(f"{place:04}{name}", leaf), value)

    changed = {name: of(place, options[name]) for place, name in enumerate(named, start=len(inputs))}
    return tuple(of(place, value) for place, value in enumerate(inputs)), changed
