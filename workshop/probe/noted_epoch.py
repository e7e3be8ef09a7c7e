"""The steps of an epoch as they are noted for the judge: how many there are, and where each of them begins and ends."""

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic  # the script may replace that of the module
from typing import Any
from weakref import ref

import torch
from torch import nn
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader

from workshop.probe.batch_use import BatchUse
from workshop.probe.events import AskedFor, ParameterGroup
from workshop.probe.followed_training import FollowedTraining
from workshop.probe.item_addresses import Address
from workshop.probe.loader_epochs import without_iterator
from workshop.probe.noted_step import NotedPass, NotedStep, StepWriter, item_of
from workshop.probe.optimizers import plain_settings
from workshop.probe.recorded_step import StepRecorder
from workshop.probe.settings import MAX_EPOCH_STEPS, JudgedRun
from workshop.probe.sharding import inner_optimizer, whole

SHARE_SEEDED, MOST_SEEDED = 1 / 4, 1 / 2
"""Share of the batches whose draws for items are seeded, which takes 20 microseconds for each item: at least, and of
short epochs at most. The others are drawn by the script alone, which may draw alike in each worker."""

MAX_OTHER_INPUTS = 4
"""So many inputs beside those of the model's first argument are noted in a step."""


class NotedEpoch:
    """Notes what enters the models, and which parameters are stepped; a step that the judge asks for is recorded."""

    def __init__(
        self, judged: JudgedRun, training: FollowedTraining, recorder: StepRecorder, writer: StepWriter
    ) -> None:
        self.training, self.recorder, self._writer = training, recorder, writer
        self.length = EpochLength(judged.epoch_steps, judged.max_epoch_s)
        self._random_states, self._alike = judged.random_states, judged.alike
        self.batches = BatchUse()
        self.steps: list[NotedStep] = []  # that are over
        self.step = NotedStep()  # that is under way
        self.is_over = False  # whether the last step is over, but for the steps of other models
        self.stepped: set[nn.Parameter] = set()  # in the step that is under way
        self.last_stepped: set[nn.Parameter] = set()  # in the last step
        self.retaken = 0  # so often the loop has taken a recorded step
        self._steps_in_run = 0
        self._steps_to_go: int | None = None  # until the script waits; None for an epoch
        self.loaders: dict[int, DataLoader[Any]] = {}  # the last one of each dataset, by its number
        self._datasets: dict[int, int] = {}  # the number of each dataset
        self._epochs: Counter[int] = Counter()  # of the DataLoaders of each dataset
        self._carried = NotedStep()  # the beginning of the first step of the next epoch
        self._outputs: dict[int, ref[torch.Tensor]] = {}  # of trained modules in this step, by their memory

    def _is_sampled(self) -> bool:
        """Whether the step that is under way, or over but for other models, is the one that the judge asks for."""
        return self.recorder.wants(len(self.steps) - self.is_over)

    def loader_began(self, loader: DataLoader[Any]) -> int:
        """Note that a DataLoader begins an epoch of the training; return the number of its dataset."""
        self.length.loader_began(loader)
        self.batches.loader = loader
        number = self._datasets.setdefault(id(loader.dataset), len(self._datasets))
        self._epochs[number] += 1
        self.loaders[number] = without_iterator(loader)
        return number

    def comes_round(self, loader: DataLoader[Any]) -> bool:
        """Return whether the first epoch of the run turns out to be over as a DataLoader begins once more."""
        is_first = self._datasets.get(id(loader.dataset)) == 0
        if self.is_over or not is_first or not self.length.comes_round(self._steps_in_run):
            return False
        self._carried, self.step = self.step, NotedStep()
        return True

    def load(self, batch: Any, in_training_thread: bool, source: int, address: Address | None) -> None:
        """Note a batch that was handed out, with its address, and the random states as it comes.

        The step that is recorded had better be one whose draws for items were seeded.
        """
        self.length.batch_taken()
        if address:
            address = replace(address, dataset=self._datasets.get(source, 0))
            self.step.asked.append(AskedFor(address.dataset, self._epochs[address.dataset], address.indexes))
        self.batches.load(batch, in_training_thread, source, address)
        if in_training_thread and self.recorder.wants(len(self.steps)):
            is_first = not self.batches.kept
            later = self._later() if is_first and address and address.seed is None else None
            if later and self.length.share_seeded:
                self.recorder.sample_step = later
                return
            self.recorder.note_beginning()
            self.batches.kept.append(batch)

    def _later(self) -> int | None:
        """Return the next step of the epoch that may be recorded, as far as that is known; None if there is none."""
        steps = self._steps_to_go or self.length.steps or self.length.batches or 0
        alike, whole = self._alike, self.length.steps or 1
        return next((n for n in range(len(self.steps) + 1, steps) if not alike or n % whole in alike), None)

    def enter(self, tensors: list[torch.Tensor]) -> None:
        """Note what enters the model."""
        batch = tensors[0]
        entered = NotedPass.of(batch)
        if self._random_states:
            random_state = torch.get_rng_state().numpy().tobytes()
            entered.noted |= {"random_state": random_state, "random_seed": torch.initial_seed()}
            entered.item = item_of(batch) if batch.is_complex() else None
        entered.noted["is_output"] = batch.requires_grad or self._is_output(batch)
        if not self.step.forwards and self.training.model:
            self.step.buffers_before = self.training.model.spots_of_buffers.values()
        self.step.forwards.append(entered)
        self.enter_others(tensors[1:])

    def enter_others(self, tensors: list[torch.Tensor]) -> None:
        """Note more inputs of the model, or those of others, where they are no outputs of a module."""
        for each in tensors:
            if len(self.step.other_inputs) >= MAX_OTHER_INPUTS:
                return
            if each.ndim and not each.is_nested and not each.requires_grad and not self._is_output(each):
                entered = NotedPass.of(each)
                entered.noted["is_loaded"] = self.batches.is_loaded(each)
                self.step.other_inputs.append(entered)

    def record_inputs(self, number: int, tensors: list[torch.Tensor]) -> None:
        """Record what enters a model, given its number."""
        if self._is_sampled():
            self.recorder.enter(number, tensors, self.training.state())

    def look_for_batch(self, tensors: list[torch.Tensor]) -> None:
        """Note which batch these tensors come from: in the step that is recorded, and in the first of an epoch."""
        is_recorded = self.recorder.wants(len(self.steps))
        if not self.steps or is_recorded:
            for each in tensors:
                self.batches.use(each, keeps=is_recorded)

    def put_out(self, output: torch.Tensor) -> None:
        """Note what a module that is trained has made."""
        self._outputs[output.untyped_storage().data_ptr()] = ref(output)

    def _is_output(self, batch: torch.Tensor) -> bool:
        """Return whether a module that is trained has made it in this step, such as a generator."""
        if batch.layout != torch.strided:
            return False
        of_module = self._outputs.get(batch.untyped_storage().data_ptr())
        return of_module is not None and of_module() is not None

    def on_loss(self, targets: torch.Tensor) -> None:
        """Note the targets of what has entered the model last."""
        self.step.forwards[-1].targets = targets.detach().clone()
        self.look_for_batch([targets])
        if self._is_sampled():
            self.recorder.on_loss(targets)

    def on_backward(self, loss: Any) -> None:
        """Note a backward pass, and the loss."""
        self.step.backwards += 1
        if self._is_sampled():
            self.recorder.on_backward(loss)

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Note the settings of one of the model's optimizers, and the parameters before the first of them steps."""
        if self.training.before_step(optimizer):
            kind, scaled = type(inner_optimizer(optimizer)).__name__, self.training.scalers.settings()
            self.step.groups += tuple(
                ParameterGroup(kind, len(group["params"]), plain_settings(group) | scaled)
                for group in optimizer.param_groups
            )
            if not self.stepped:
                self.step.before = self.training.values()
        if self._is_sampled():
            self.recorder.before_optimizer(optimizer, self.training.state())

    def after_optimizer(self, optimizer: Optimizer, is_skipped: bool = False) -> bool:
        """Note which parameters an optimizer steps, or would but for a scaler; return whether all of them are."""
        assert self.training.model
        self.step.is_skipped |= is_skipped
        share = self.training.model.share_of(optimizer)
        self.stepped = self.stepped | share if self.stepped else share
        if self._is_sampled() and not is_skipped:
            self.recorder.after_optimizer(optimizer, self.training.state())
        return bool(self.stepped) and self.stepped >= self.training.model.trained

    def end_step(self) -> None:
        """Note what has become of the parameters in the step that is under way, and go on with another one."""
        assert self.training.model
        self.last_stepped, self.stepped = self.stepped, set()
        self.step.retaken = self.retaken
        self.step.after = self.training.values()
        self.step.buffers_after = self.training.model.spots_of_buffers.values()
        self.step.parameter = whole(self.training.model.smallest.detach()).clone()
        self.steps.append(self.step)
        self.step, self._outputs = NotedStep(), {}
        self.length.step_ended(len(self.steps))
        self.is_over = True
        self._steps_in_run += 1
        if self._steps_in_run == 2:
            self.training.look_for_copies()

    def goes_on(self) -> bool:
        """Return whether the step that the optimizer has taken is recorded until the next batch is asked for.

        What else the script does in it, such as to update an average, is seen then. But an epoch ends with the
        optimizer's step, before a validation.
        """
        return self._is_sampled() and len(self.steps) != (self._steps_to_go or self.length.steps)

    def begin_step(self) -> bool:
        """Begin the step after one that is over; return whether it is the first of the next epoch."""
        is_last = len(self.steps) == (self._steps_to_go or self.length.steps)
        if self._is_sampled():
            self.recorder.after_step(self.training.state(), self.batches, not is_last)
        self.is_over = False
        self.batches.next_step()
        if is_last:
            self._carried, self.step = self.step, NotedStep()
            return True
        if self.recorder.wants(len(self.steps)):
            self.recorder.note_beginning(self.training.state())
        return False

    @property
    def other_passes(self) -> int:
        """So many steps of the last epoch, if some of them have other numbers of passes than others, or else 0."""
        return len(self.steps) * (len({len(step.forwards) for step in self.steps}) > 1)

    def never_steps(self) -> bool:
        """Return whether the script seems to train without ever stepping an optimizer."""
        return len(self.step.forwards) > 2 * max(self.length.steps or 0, MAX_EPOCH_STEPS)

    def begin(self, steps: int | None, sample_step: int | None, alike: Sequence[int] = ()) -> None:
        """Begin another epoch, of so many steps, or None for as many as the first one has; one of them is recorded."""
        self.training.copies.take()
        self._alike = alike
        self.steps, self.step, self._carried = [], self._carried, NotedStep()
        self._steps_to_go = steps
        self.length.epoch_began()
        self.recorder.sample_step, self.recorder.seconds = sample_step, 0.0
        if self.recorder.wants(0):
            self.recorder.note_beginning(self.training.state() if self.training.model else None)

    def write(self) -> None:
        """Write what is trained, and each step; only now are figures fetched from the device."""
        if not self.training.optimizers or self.training.model is None:
            return
        self.training.write(self._writer.events)
        for step in [*self.steps, self.step]:
            self._writer.write(step, self.training.model.spots)


MAX_EPOCH_S = 20.0
MIN_STEPS = 3
"""An epoch ends after this many seconds from its first step, if no other time is asked for, but not before this many
steps."""


class EpochLength:
    """Finds the length of the run's first epoch, which all later ones have, too.

    Args:
        steps: the number of steps, if the judge gives it.
        max_s: the longest time of the first epoch in seconds; None for the usual one, and for no cut within an epoch of
            a short DataLoader.

    Attributes:
        steps: the number of steps; None as long as it is not known.
        batches: those of an epoch of the DataLoader that began last; None as long as it is not known.
        batches_taken: those that were handed out since the epoch began.
    """

    def __init__(self, steps: int | None, max_s: float | None) -> None:
        self.steps, self._max_s = steps, max_s
        self._began_s = 0.0  # the end of the first step: how long it took to start workers, or to compile, says little
        self.batches: int | None = None
        self._loaders = set[int]()  # that began since the run did
        self.batches_taken = 0
        self._left = 0  # of the batches, those since the last step
        self._starts = [(0, 0)]  # at each: the steps of the run before it, and the batches left over
        self._whole: int | None = None  # the steps after which the starts of the DataLoader come round

    def loader_began(self, loader: DataLoader[object]) -> None:
        """A DataLoader begins an epoch of the training."""
        try:
            self.batches = len(loader)
        except TypeError:  # of an iterable dataset
            self.batches = None
        self._loaders.add(id(loader))

    def batch_taken(self) -> None:
        """A DataLoader has handed out a batch to the training."""
        self.batches_taken += 1
        self._left += 1

    def epoch_began(self) -> None:
        """Another epoch begins, which is as long as the first one."""
        self.batches_taken = 0

    def comes_round(self, steps: int) -> bool:
        """A DataLoader begins once more, after so many steps of the run: return whether that ends the first epoch.

        Where a step takes several batches, and an epoch of the DataLoader is no multiple of them, its steps come round
        once as many batches are left over as at an earlier start. Where some are, the epoch ends with a later step.
        """
        period = next((steps - since for since, left in reversed(self._starts) if left == self._left), 0)
        is_drained = self.batches is not None and self.batches_taken == self.batches * len(self._starts)
        self._starts.append((steps, self._left))
        if steps < MIN_STEPS or not period or steps % period or not (is_drained or period >= MIN_STEPS):
            return False
        self._whole = self._whole or period
        if self.steps is not None:
            return False
        self.steps = steps + (period if self._left else 0)
        return not self._left

    @property
    def share_seeded(self) -> float:
        """The share of the batches whose draws for items are seeded: every fourth, and of a short epoch four or so.

        The rest shows what the script's own draws are like, as where its workers draw alike.
        """
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # ranks record the same step
            return 0.0
        return max(SHARE_SEEDED, min(MOST_SEEDED, 4 / (self.steps or self.batches or MAX_EPOCH_STEPS)))

    def step_ended(self, steps: int) -> None:
        """A step of the first epoch is over, in which there were so many; perhaps the epoch is, too."""
        self._left = 0
        if steps == 1:
            self._began_s = monotonic()
        if self.steps is None and self._is_enough(steps):
            self.steps = steps

    def _is_enough(self, steps: int) -> bool:
        """Whether the first epoch is over: after as many steps as the DataLoader has batches, or part of a long one.

        Once half of a short DataLoader has gone by, the other half is waited for: the last batch may be a special one.
        An epoch in which a step takes several batches is over before: see `comes_round`.
        """
        is_long = monotonic() - self._began_s > (self._max_s or MAX_EPOCH_S)
        if self.batches and self.batches <= MAX_EPOCH_STEPS:
            cut = is_long and self._max_s and steps >= MIN_STEPS and self.batches_taken < self.batches / 2
            return bool(cut) or steps == self.batches
        return steps >= (MIN_STEPS if is_long else MAX_EPOCH_STEPS)

    def whole_steps(self, steps: int) -> int | None:
        """Return how many steps an epoch of the training's only DataLoader has, after an epoch of so many `steps`.

        A loop may have taken some batches more, for steps that follow.
        """
        if len(self._loaders) != 1 or not (self.batches and self.batches_taken and steps):
            return None
        if self._whole or self.batches_taken % self.batches == 0:
            return self._whole or steps // math.gcd(steps, self.batches_taken // self.batches)
        taken = self.batches_taken // steps * steps or self.batches_taken
        return math.ceil(self.batches * steps / taken)
