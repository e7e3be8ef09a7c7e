"""A recorded step of another script that this script's own loop takes, as if it had come to it by itself.

It begins with the recorded parameters, optimizer state and random states. The DataLoader hands out the recorded batch.
What enters a model or a loss function nevertheless different, as where the other script normalises its pictures
elsewhere, is replaced there. Each call of a model begins with the random states of the recorded call, whatever the
other script has drawn before. At the end of the step, everything is put back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.batch_use import BatchUse, is_same
from workshop.probe.gradient_scalers import scale_of
from workshop.probe.internals import tree_map, tree_map_with_names
from workshop.probe.made_anew import OF_LOSS, Entered
from workshop.probe.random_states import random_states, seed_generators, set_random_states
from workshop.probe.recorded_step import map_tensors, note_gradients, tensors_in_call
from workshop.probe.sharding import shared_like
from workshop.probe.training_state import TrainingState, clones, load_settings, settings_of


@dataclass(frozen=True)
class StepToTake:
    """A step to be taken."""

    record: dict[str, Any]
    """As `StepRecorder` saves it."""
    rounding: float = 0.0
    """Move each parameter, and each input of a model, by up to this times its value."""
    made: Sequence[Any] | None = None
    """The batches, made anew: the loop itself then makes all inputs of them, and none is handed over."""
    draw: int = 0
    """The number of a draw: random generators begin as recorded in the first one, 0, and otherwise in others."""


@dataclass
class Taken:
    """What came of an attempt."""

    gradients: dict[int, list[torch.Tensor | None]] = field(default_factory=dict)
    """By the number of the parameter, as its optimizer found them at each of its steps."""
    losses: list[torch.Tensor] = field(default_factory=list)
    after: list[dict[str, torch.Tensor]] = field(default_factory=list)
    """Some values of each parameter and of the optimizers' state for it, after a step with the recorded gradients."""
    buffers: list[torch.Tensor] = field(default_factory=list)
    by_use: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors of a batch that could not be handed over, by their place, as they were replaced where they were used."""
    entered: Entered = field(default_factory=Entered)
    """What entered the models and the losses, if the batches were made anew."""
    draws: bool = False
    """Whether random numbers were drawn after the first model was called, as for a dropout, or the loop has drawn other
    inputs than the recorded ones, and perhaps something else beside them."""
    doubt: str = ""
    """Why a difference would prove nothing; empty if it would."""


class RetakenStep:
    """One attempt, from where the loop goes on until the step's end.

    Args:
        attempt: what is to be taken.
        state: the models and optimizers of this script.
        batches: those that its DataLoaders have handed out.

    Attributes:
        goes_on: whether the step lasts until the next batch is asked for, as it was recorded.
    """

    def __init__(self, attempt: StepToTake, state: TrainingState, batches: BatchUse) -> None:
        self.record, self.rounding, self.state = attempt.record, attempt.rounding, state
        self._made = None if attempt.made is None else list(attempt.made)  # that are still to be handed out
        self._draw = attempt.draw
        self.taken = Taken()
        self._losses_entered: list[tuple[int, list[torch.Tensor | None]]] = []
        self.goes_on = bool(self.record["is_whole"])
        state.leave_out_copies(len(self.record["before"]["parameters"]))
        self._own_batches, self._is_plain, self._varies = batches, batches.is_plain, batches.varies
        self._batches = list(map(dict, self.record["batches"]))  # that are still to be handed out
        self._random = random_states()
        self._random_at_first: dict[str, Any] = {}  # as the first model is called
        self._own: dict[str, Any] = {}
        self._own_state: list[Any] = []
        self._own_settings: dict[int, dict[str, Any]] = {}
        self._handed = self._losses = self._replaced = self._losses_before = 0
        self._missing: dict[str, torch.Tensor] = {}  # of its own batches, what is there in place of a recorded tensor
        self._entered: dict[int, int] = {}
        self._goes_on = False
        self._times: float | None = None  # so many times as many items as this script's own batch has the recorded one
        self._dice: dict[torch.device, torch.Generator] = {}
        set_random_states(self.record["random"])
        if self._draw:  # of a loop that makes its own batches
            seed_generators(self._draw)

    def batch(self, has_begun: bool, source: int = 0) -> Any:
        """Return the batch that a DataLoader hands out; `has_begun` tells whether it has handed out any this epoch.

        The `source` stands for the dataset, of which the next recorded batch is handed out that is like the last one. A
        loop that loads ahead gets the last one itself, so that none of its own is missing in the end. It returns None
        where the DataLoader should go on by itself.
        """
        own = self._own_batches.last_of.get(source, self._own_batches.last)
        number, self._handed = self._handed, self._handed + 1
        if not self._is_plain:
            return tree_map(_clone, own) if has_begun else None
        if not self._entered:
            set_random_states(self.record["random"])
            self._begin(goes_on=False)
        if self._made is not None:
            if self._draw:
                seed_generators(self._draw)
            return self._made.pop(0) if self._made else tree_map(_clone, own)
        recorded = next((each for each in self._batches if self._is_like(own, each)), next(iter(self._batches), {}))
        self._batches = [each for each in self._batches if each is not recorded]

        def put(name: str, leaf: Any) -> Any:
            theirs = recorded.get(name)
            if not isinstance(leaf, torch.Tensor):
                return theirs if type(theirs) is type(leaf) else leaf
            place = f"{number}{name}"
            for known in (theirs, self.record.get("by_use", {}).get(place)):
                if isinstance(known, torch.Tensor) and self._alike(leaf, known, in_batch=True):
                    return known.clone()
            self._missing[place] = leaf.clone()
            return self._missing[place]

        return tree_map_with_names(put, own)

    def _is_like(self, own: Any, recorded: dict[str, Any]) -> bool:
        """Return whether all tensors of a batch are alike in a recorded one."""
        found: list[bool] = []

        def look(name: str, leaf: Any) -> None:
            if isinstance(leaf, torch.Tensor):
                theirs = recorded.get(name)
                found.append(isinstance(theirs, torch.Tensor) and self._alike(leaf, theirs, in_batch=True))

        tree_map_with_names(look, own)
        return all(found)

    def enter(
        self, which: int, model: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return what a model gets in place of its arguments, given its number; None for what it has."""
        self._begin()
        place = self._entered.get(which, 0)
        self._entered[which] = place + 1
        if self._made is not None:
            self._note(which, tensors_in_call(model, inputs, options))
            return None
        calls = [(tensors, states) for number, tensors, states in self.record["inputs"] if number == which]
        ours = tensors_in_call(model, inputs, options)
        theirs, states = calls[place] if place < len(calls) else ([], {})
        theirs = theirs[: len(ours)]  # it may hand on more, such as which outputs its loss looks at
        if not ours or len(ours) != len(theirs):
            self.taken.doubt, self._times = "what enters a model could not be handed over", math.nan
            return None
        if self._times is None and ours[0].ndim and theirs[0] is not None and len(ours[0]):
            self._times = len(theirs[0]) / len(ours[0])
        set_random_states(states)
        if self._draw:
            seed_generators(self._draw)
        self._random_at_first = self._random_at_first or states
        others = {
            id(one): other
            for one, other in zip(ours, theirs, strict=True)
            if other is not None and not one.requires_grad and not is_same(one, other)
        }
        if not all(self._alike(one, others[id(one)]) for one in ours if id(one) in others):
            self.taken.doubt = "what enters a model has another shape, or more items at a time"
            return None
        for one in ours:
            if id(one) in others:
                self._replace(one, others[id(one)])

        def put(_: str, leaf: Any) -> Any:
            value = others.get(id(leaf), leaf)
            is_input = isinstance(value, torch.Tensor) and not value.requires_grad
            return self._rounded(value) if is_input else value

        return map_tensors(model, inputs, options, put) if others or self.rounding else None

    def targets(self, ours: torch.Tensor) -> torch.Tensor:
        """Return the targets that a loss function gets."""
        number, self._losses = self._losses, self._losses + 1
        if self._made is not None:
            self._losses_entered.append((OF_LOSS, [None if ours.requires_grad else ours.detach().clone()]))
            return ours
        recorded = self.record["targets"]
        theirs = recorded[number] if number < len(recorded) else None
        if theirs is None or ours.requires_grad or not self._alike(ours, theirs):
            return ours
        if not is_same(ours, theirs):
            self._replace(ours, theirs)
        return theirs.clone()

    def _replace(self, ours: torch.Tensor, theirs: torch.Tensor) -> None:
        """Note that a recorded tensor takes the place of an own one, perhaps of one that the batch had."""
        self._replaced += 1
        for place, leaf in self._missing.items():
            if is_same(leaf, ours):
                self.taken.by_use[place] = theirs.detach().clone()

    def _note(self, which: int, tensors: Sequence[torch.Tensor]) -> None:
        noted = [None if each.requires_grad else each.detach().clone() for each in tensors]
        self.taken.entered.inputs.append((which, noted))

    def on_backward(self, loss: Any) -> None:
        """Note the loss."""
        if isinstance(loss, torch.Tensor):
            self.taken.losses.append(loss.detach().clone())

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Note the gradients; the optimizer then steps with those that were recorded, and with their settings."""
        self._begin()
        self._own_settings |= settings_of(optimizer, self.state.parameters)
        load_settings(optimizer, self.state.parameters, self.record["settings"])
        self._losses_before = len(self.taken.losses)
        if not self.taken.losses:  # the gradients come in a closure
            return
        scale = scale_of(optimizer)
        note_gradients(self.taken.gradients, optimizer, self.state, scale)
        for number, parameter in enumerate(self.state.parameters):
            if self.state.owners.get(parameter) is optimizer:
                recorded = self.record["gradients"].get(number, [])[len(self.taken.gradients[number]) - 1 :][:1]
                given = next(iter(recorded), None)
                parameter.grad = None if given is None else shared_like(parameter, given * scale)

    def after_optimizer(self, optimizer: Optimizer) -> None:
        """Note the gradients that came in a closure, and give the optimizer its own settings back."""
        if not self._losses_before or len(self.taken.losses) > self._losses_before:
            note_gradients(self.taken.gradients, optimizer, self.state, again=bool(self._losses_before))
        load_settings(optimizer, self.state.parameters, self._own_settings)

    @property
    def has_other_passes(self) -> bool:
        """Whether the model was called more or less often than in the recorded step."""
        return self._entered.get(0, 0) != sum(number == 0 for number, *_ in self.record["inputs"])

    def leave_out(self) -> None:
        """A gradient scaler has left out an optimizer's step; the other script may just have come round that."""
        if any(each is not None for of_parameter in self.record["gradients"].values() for each in of_parameter):
            self.taken.doubt = "its gradients are not finite there, and the optimizer's step is left out"

    def end(self) -> Taken:
        """Note what the step has made, and put everything back as it was."""
        self.taken.after = self.state.some_values(self.record.get("places"))
        self.taken.buffers = clones(self.state.buffers)
        is_whole = self._is_plain and self._handed and len(self._missing) <= self._replaced
        if not (is_whole or self.taken.doubt or self._losses):
            self.taken.doubt = "the targets of its loss could not be handed over"
        elif len(self._missing) > self._replaced and not self.taken.doubt:
            self.taken.doubt = "not all that its batch has could be handed over"
        now, first = random_states(), self._random_at_first
        known = {"cpu", "cuda"} & now.keys() & first.keys()
        self.taken.draws = any(not torch.equal(now[name].cpu(), first[name].cpu()) for name in known)
        if not self.taken.doubt and self.record["is_compiled"] and self.taken.draws:
            self.taken.doubt = "compiled code draws other random numbers"
        self.taken.draws |= not self._handed and self._replaced > 0
        if self._made is not None:
            self.taken.entered.inputs += self._losses_entered
            self.taken.doubt = "its loop loads ahead" if self._made else ""
        self.state.put_back(self._own_state)
        self.state.load(self._own)
        self.state.scalers.put_back()
        set_random_states(self._random)
        return self.taken

    def _begin(self, goes_on: bool = True) -> None:
        """Take over the recorded state as a batch is handed out, and again as the step goes on: at the first call.

        Between the two, another model may be called without gradients, such as a teacher. An optimizer with a closure
        steps before the model is called.
        """
        state = self.state
        if not self._own:
            self._own = {"parameters": clones(state.parameters), "buffers": clones(state.buffers)}
            self._own_state = state.own_state()
        elif self._goes_on:
            return
        self._goes_on = goes_on
        before = self.record["before"]
        state.load(before | {"parameters": [self._rounded(each) for each in before["parameters"]]})
        state.load_state(before["state"])
        state.scalers.lend(before["scales"])

    def _alike(self, ours: torch.Tensor, theirs: torch.Tensor, in_batch: bool = False) -> bool:
        """Return whether two tensors are alike, but for the size of the batch, and for their shape if it varies.

        What is handed out `in_batch` may have another size than this script's last batch, if the last one handed out
        has entered the model as it was.
        """
        if ours.ndim != theirs.ndim or ours.dtype != theirs.dtype:
            return False
        is_shaped = ours.shape[1:] == theirs.shape[1:] or self._varies
        if self._times is None or not ours.ndim or (in_batch and self._times == 1):
            return is_shaped
        return is_shaped and not math.isnan(self._times) and len(theirs) == round(len(ours) * self._times)

    def _rounded(self, values: torch.Tensor) -> torch.Tensor:
        """Return values, each moved by up to `rounding` times itself, without the script's random generators."""
        if not self.rounding or not values.is_floating_point():
            return values
        dice = self._dice.setdefault(values.device, torch.Generator(values.device))
        return values * (1 + self.rounding * (2 * torch.rand(values.shape, generator=dice, device=values.device) - 1))


def _clone(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
