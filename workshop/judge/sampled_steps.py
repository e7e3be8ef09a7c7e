"""Steps of a script that were recorded as it trained, and what the original comes to when it takes them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from workshop.judge.judged_script import JudgedScript, TimedEpoch
from workshop.judge.step_proof import differs
from workshop.probe.messages import Proceed, Recomputation

NOTHING_SEEN = Recomputation(error="no step of it was seen whole")
"""The result for a script none of whose steps could be recorded."""

OTHER_NUMBER = "it could not take this step as its own step of the same number"
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
        self._settled: set[int] = set()  # the places of those that were taken at the same number

    @property
    def files(self) -> list[Path]:
        """The files of all steps."""
        return [file for step in self.steps for file in step.files]

    @property
    def results(self) -> list[Recomputation]:
        """What came of the steps that were taken; `NOTHING_SEEN` if there were none."""
        return self._results or [NOTHING_SEEN]

    @property
    def unsettled(self) -> list[int]:
        """The places of the steps in which the original comes to something else, perhaps as it counts its steps."""
        places = enumerate(self._results)
        return [place for place, result in places if place not in self._settled and differs(result)]

    def add(self, epochs: Sequence[TimedEpoch], step: int) -> None:
        """Add the step of an epoch that was to be recorded, given its number there, if all ranks have recorded it."""
        files = [epoch.sample for epoch in epochs if epoch.sample]
        if len(files) == len(epochs):
            self.steps.append(SampledStep(files, epochs[0].first_step + step))

    def take(self, original: JudgedScript) -> None:
        """Have the original take the steps that it has not taken yet."""
        self._results += [original.recompute(*step.files) for step in self.steps[len(self._results) :]]

    def settle(self, place: int, result: Recomputation | None) -> None:
        """Note what the original comes to at the same number; None if it could not be brought there."""
        self._settled.add(place)
        self._results[place] = result or replace(self._results[place], doubt=OTHER_NUMBER)


def take_at_same_number(original: JudgedScript, sampled: Sequence[SampledSteps], fits: Callable[[int], bool]) -> None:
    """Where the original came to something else, have another run of it take the step as its own of the same number.

    What its loop counts, as for a schedule of the loss, is then the same.

    Args:
        original: the other run, not started yet.
        sampled: the recorded steps of one script or more.
        fits: whether there is time for so many steps of the original.
    """
    unsettled = [(of, place) for of in sampled for place in of.unsettled]
    for of, place in sorted(unsettled, key=lambda each: each[0].steps[each[1]].number):
        files, number = of.steps[place]
        if original.steps_in_run > number:  # the steps that it has taken count, too
            original.stop()
            original.epochs_in_run = original.steps_in_run = 0
        ahead = number - original.steps_in_run
        if ahead and fits(ahead):
            original.epoch_steps = ahead  # of the first epoch of a run
            original.epoch(Proceed(steps=ahead))
        is_same = original.epochs_in_run > 0 and original.steps_in_run == number
        of.settle(place, original.recompute(*files) if is_same else None)
