"""Whether recorded steps of a script come out the same when the original's own loop takes them."""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from workshop.judge.judged_script import JudgedScript, TimedEpoch
from workshop.judge.ledger import Ledger
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.probe.events import StepTaken
from workshop.probe.messages import Proceed, Recomputation

LOSS_TOLERANCE = 1e-3
"""Relative error, at most, of a loss. Reordering float32 operations gives 1e-6, bfloat16 1e-2."""

ROUNDING = 20.0
"""Times the rounding noise, at most, by which gradients may differ. On ResNet-18, a different order of operations or
memory layout, or a compiler, gives 3; bfloat16 gives 290 in a single layer, and 900 for gradients. On CUDA, where
convolutions may round to TensorFloat-32, the noise is that of its 10 bits, and hides bfloat16."""

GRADIENT_TOLERANCE, STEP_TOLERANCE, STATE_TOLERANCE, BUFFER_TOLERANCE = 0.1, 1e-2, 1e-4, 1e-3
"""Error, at most, of each kind in a recomputed step; bfloat16 makes a `state_error` of 2e-3."""

NOTHING_SEEN = Recomputation(error="no step of it was seen whole")
"""The result for a script none of whose steps could be recorded."""

OTHER_NUMBER = "it could not take this step as its own step of the same number"
"""Why a difference proves nothing."""

DRAWN = "its loop or its models draw at random, and may do so in another order"
"""The same, of a model with a dropout, or that varies what enters it, and of a loop that makes its own batches."""

MAPPED = "its parameters have other shapes, and may be others of the original's than those that they were taken for"
"""The same, of a model whose parameters are joined or turned."""


class StepReason(ReasonKind):
    """What is said of steps that the original takes again."""

    NOT_TAKEN = "the original could not take a sampled step: {error}", UNSEEN
    OTHER_LOSS = "the loss of a sampled step is {candidate:.4f}; the original gets {original:.4f} from the same batch"
    OTHER_GRADIENTS = (
        "a sampled step has something else than the gradient that the original gets from its batch: {error:.0%} of the "
        "gradient is not accounted for"
    )
    OTHER_UPDATE = (
        "in a sampled step, the optimizer turned the gradients into another update than the original's would: "
        "{error:.0%} of the change of a tensor is not accounted for"
    )
    OTHER_STATE = (
        "after a sampled step the optimizer's state is not what the original's would be: a tensor is off by "
        "{error:.1g} of its length"
    )
    OTHER_BUFFERS = (
        "a sampled step began with, or left, other values in the model's buffers, such as the running means of batch "
        "norm"
    )
    NO_COPY = "the original's steps also change a copy of the model, such as an average; none is seen here", UNSEEN
    IN_DOUBT = "the original comes to something else in a sampled step, but {doubt}", UNSEEN
    LOWER_PRECISION = (
        "the gradients of nearly all tensors are off by {times:.0f} times the rounding noise, where another order of "
        "operations makes 3: something is computed in lower precision"
    )
    LOWER_PRECISION_OF_SOME = (
        "the gradients of {tensors} tensors are off by {times:.0f} times the rounding noise, where another order of "
        "operations makes 3: something is computed in lower precision"
    )


class StepAspect(enum.StrEnum):
    """What of a step may come out otherwise, in words that go into a list."""

    STEPS = "steps themselves"
    LOSS = "loss"
    GRADIENTS = "gradients"
    UPDATE = "change of the parameters"
    STATE = "optimizer's state"
    BUFFERS = "model's buffers"


def check_recomputed(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the original's loop, from the same state and batch, gets the same loss, gradients and parameters.

    Whatever is not reproducible in the original's own steps is not checked.
    """
    left_out = not_reproducible(original.recomputed)
    for result in candidate.recomputed:
        if result.error is not None:
            yield StepReason.NOT_TAKEN(error=result.error)
            return
        if wrong := [reason for aspect, reason in _wrong(result) if aspect not in left_out]:
            doubt = result.doubt or (MAPPED if result.is_mapped else DRAWN if result.is_drawn else "")
            yield StepReason.IN_DOUBT(doubt=doubt) if doubt else wrong[0]
            return
    if any(each.copied for each in original.recomputed) and not any(each.copied for each in candidate.recomputed):
        yield StepReason.NO_COPY()
    if StepAspect.GRADIENTS not in left_out:
        whole = [each.gradient_errors for each in candidate.recomputed if each.gradient_errors and not each.doubt]
        yield from _check_precision(whole)


def differs(result: Recomputation) -> bool:
    """Return whether the original comes to something else in a step that it could take."""
    return result.error is None and not result.doubt and any(_wrong(result))


def are_the_same(recomputed: Sequence[Recomputation]) -> bool:
    """Return whether the original has taken some steps, and come to the same in all of them."""
    return bool(recomputed) and not any(each.error is not None or any(_wrong(each)) for each in recomputed)


def not_reproducible(recomputed: Sequence[Recomputation]) -> list[StepAspect]:
    """Return what differs when the original takes its own steps again."""
    if any(each.error is not None for each in recomputed):
        return [StepAspect.STEPS]
    return sorted({aspect for each in recomputed for aspect, _ in _wrong(each)})


def _wrong(result: Recomputation) -> Iterator[tuple[StepAspect, Reason]]:
    """What is wrong with a step, and what is said of it."""
    loss, recorded = result.loss, result.recorded_loss
    if abs(recorded - loss) > LOSS_TOLERANCE * abs(loss):
        yield StepAspect.LOSS, StepReason.OTHER_LOSS(candidate=recorded, original=loss)
    if result.gradient_error > GRADIENT_TOLERANCE:
        yield StepAspect.GRADIENTS, StepReason.OTHER_GRADIENTS(error=result.gradient_error)
    if result.step_error > STEP_TOLERANCE:
        yield StepAspect.UPDATE, StepReason.OTHER_UPDATE(error=result.step_error)
    if result.state_error > STATE_TOLERANCE:
        yield StepAspect.STATE, StepReason.OTHER_STATE(error=result.state_error)
    if result.buffer_error > BUFFER_TOLERANCE:
        yield StepAspect.BUFFERS, StepReason.OTHER_BUFFERS()


def _check_precision(errors: Sequence[Sequence[float]]) -> Iterator[Reason]:
    """Check that gradients differ by no more than rounding, given the error of each tensor in some steps.

    A value that rounds to the other side of a kink, as in ReLU, makes the gradients of all earlier layers jump in that
    step. So two steps must be off in nearly all tensors, or a tensor must be off in every step, of three or more.
    """
    off = sorted(float(np.quantile(of_step, 0.1)) for of_step in errors)[-2:]
    in_all_steps = np.min(errors, axis=0) if len(errors) >= 3 else np.zeros(1)
    if len(off) == 2 and off[0] > ROUNDING:
        yield StepReason.LOWER_PRECISION(times=off[0])
    elif in_all_steps.max() > ROUNDING:
        tensors = (in_all_steps > ROUNDING).sum()
        yield StepReason.LOWER_PRECISION_OF_SOME(tensors=tensors, times=in_all_steps.max())


@dataclass
class SampledStep:
    """A step that was recorded."""

    files: list[Path]
    """One for each rank."""
    number: int
    """Its number in the run of the script, from 0."""
    result: Recomputation | None = None
    """What came of it, once the original has taken it."""
    is_settled: bool = False
    """Whether it was to be taken at the same number."""


class SampledSteps:
    """The recorded steps of one script."""

    def __init__(self) -> None:
        self.steps: list[SampledStep] = []

    @property
    def files(self) -> list[Path]:
        """The files of all steps."""
        return [file for step in self.steps for file in step.files]

    @property
    def results(self) -> list[Recomputation]:
        """What came of the steps that were taken; `NOTHING_SEEN` if there were none."""
        return [step.result for step in self.steps if step.result] or [NOTHING_SEEN]

    @property
    def unsettled(self) -> list[SampledStep]:
        """The steps in which the original comes to something else, perhaps as it counts its steps."""
        return [step for step in self.steps if step.result and not step.is_settled and differs(step.result)]

    def add(self, epochs: Sequence[TimedEpoch]) -> None:
        """Add the step of an epoch that was to be recorded, if all ranks have recorded it."""
        files = [epoch.sample for epoch in epochs if epoch.sample]
        if len(files) == len(epochs):
            self.steps.append(SampledStep(files, epochs[0].first_step + (epochs[0].report.sampled_step or 0)))

    def take(self, original: JudgedScript) -> None:
        """Have the original take the steps that it has not taken yet."""
        for step in self.steps:
            step.result = step.result or original.recompute(*step.files)


def alike(steps: Sequence[StepTaken]) -> list[int]:
    """Return which steps of a run's first epoch have as many passes as its very first; empty if all have.

    Those are what a loop makes of its batches anywhere. Others, as at the end of a DataLoader, it makes only there; the
    very first step has none of the batches that later epochs begin with.
    """
    passes = [len(step.forwards) for step in steps]
    return [number for number, count in enumerate(passes) if number and count == passes[0] and len(set(passes)) > 1]


def take_at_same_number(original: JudgedScript, sampled: Sequence[SampledSteps], fits: Callable[[int], bool]) -> None:
    """Where the original came to something else, have another run of it take the step as its own of the same number.

    What its loop counts, as for a schedule of the loss, is then the same. The other run is not started yet, and `fits`
    tells whether there is time for so many steps of it.
    """
    for step in sorted((step for of in sampled for step in of.unsettled), key=lambda step: step.number):
        if original.steps_in_run > step.number:  # the steps that it has taken count, too
            original.stop()
            original.epochs_in_run = original.steps_in_run = 0
        ahead = step.number - original.steps_in_run
        if ahead and fits(ahead):
            original.epoch_steps = ahead  # of the first epoch of a run
            original.epoch(Proceed(steps=ahead))
        is_same = original.epochs_in_run > 0 and original.steps_in_run == step.number
        assert step.result
        step.result = original.recompute(*step.files) if is_same else replace(step.result, doubt=OTHER_NUMBER)
        step.is_settled = True
