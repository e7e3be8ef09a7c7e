"""Steps of a script that were recorded as it trained, and what the original comes to when it takes them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from workshop.judge.judged_script import JudgedScript, TimedEpoch
from workshop.judge.step_proof import differs
from workshop.probe.messages import Proceed, Recomputation

NOTHING_SEEN = Recomputation(error="no step of it was seen whole")
"""The result for a script none of whose steps could be recorded."""

NO_TIME = "no time was left to have it take this step as its own step of the same number"
"""Why a difference proves nothing."""


class SampledStep(NamedTuple):
    """A step that was recorded."""

    files: list[Path]
    """One for each rank."""
    number: int
    """Its number in the run of the script, from 0."""


class SampledSteps:
    """The recorded steps of one script, and the result of each that the original has taken."""

    def __init__(self) -> None:
        self.steps: list[SampledStep] = []
        self._results: list[Recomputation] = []

    @property
    def files(self) -> list[Path]:
        """The files of all steps."""
        return [file for step in self.steps for file in step.files]

    @property
    def results(self) -> list[Recomputation]:
        """What came of the steps that were taken; `NOTHING_SEEN` if there were none."""
        return self._results or [NOTHING_SEEN]

    def add(self, epochs: Sequence[TimedEpoch], step: int) -> None:
        """Add the step of an epoch that was to be recorded, given its number there, if all ranks have recorded it."""
        files = [epoch.sample for epoch in epochs if epoch.sample]
        if len(files) == len(epochs):
            self.steps.append(SampledStep(files, epochs[0].first_step + step))

    def take(self, original: JudgedScript) -> None:
        """Have the original take the steps that it has not taken yet."""
        self._results += [original.recompute(*step.files) for step in self.steps[len(self._results) :]]

    def take_at_same_number(
        self, run_again: Callable[[], AbstractContextManager[JudgedScript]], fits: Callable[[int], bool]
    ) -> None:
        """Where the original comes to something else, have it take the step as its own step of the same number.

        What its loop counts, as for a schedule of the loss, is then the same.

        Args:
            run_again: makes another run of the original, from the start.
            fits: whether there is time for so many steps.
        """
        wrong = [place for place, result in enumerate(self._results) if differs(result)]
        if not wrong:
            return
        with run_again() as original:
            for place in sorted(wrong, key=lambda place: self.steps[place].number):
                files, number = self.steps[place]
                ahead = number - original.steps_in_run
                if not fits(ahead):
                    self._results[place] = replace(self._results[place], doubt=NO_TIME)
                    continue
                if ahead > 0 or not original.epochs_in_run:
                    original.epoch_steps = original.epoch_steps or max(ahead, 1)
                    original.epoch(Proceed(steps=max(ahead, 1)))
                self._results[place] = original.recompute(*files)
