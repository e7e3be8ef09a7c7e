"""Steps of a script that were recorded as it trained, and what the original comes to when it takes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workshop.judge.judged_script import JudgedScript, TimedEpoch
from workshop.judge.step_proof import differs
from workshop.probe.messages import Proceed, Recomputation

NOTHING_SEEN = Recomputation(error="no step of it was seen whole")
"""The result for a script none of whose steps could be recorded."""

OTHER_NUMBER = "it could not take this step as its own step of the same number"
"""Why a difference proves nothing."""


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

    def add(self, epochs: Sequence[TimedEpoch], step: int) -> None:
        """Add the step of an epoch that was to be recorded, given its number there, if all ranks have recorded it."""
        files = [epoch.sample for epoch in epochs if epoch.sample]
        if len(files) == len(epochs):
            self.steps.append(SampledStep(files, epochs[0].first_step + step))

    def take(self, original: JudgedScript) -> None:
        """Have the original take the steps that it has not taken yet."""
        for step in self.steps:
            step.result = step.result or original.recompute(*step.files)


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
