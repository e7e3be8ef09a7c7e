"""Where the first epoch of a run ends, after which all others are cut: in loops that take several batches a step."""

from dataclasses import dataclass

import pytest
from torch.utils.data import DataLoader

from workshop.judge.step_proof import alike
from workshop.probe.events import ForwardPass, Signatures, StepTaken
from workshop.probe.noted_epoch import EpochLength


@dataclass(frozen=True)
class Loop:
    """A loop that goes through a DataLoader of so many batches again and again."""

    batches: int
    every: int = 1
    at_end: bool = False
    """Whether it takes a step at the end of the DataLoader, too."""
    counts_on: bool = False
    """Whether it counts its batches through all epochs."""
    leaves: int = 0
    """So many batches at the end of the DataLoader it does not ask for."""


def length_of(loop: Loop, given: int | None = None) -> tuple[int, int | None]:
    """The steps of the first epoch, and of one of the DataLoader."""
    length, loader = EpochLength(given, None), DataLoader(range(loop.batches))  # type: ignore[arg-type]
    steps = taken = 0
    is_over = False
    while not is_over:
        is_over = steps > 0 and length.comes_round(steps)
        length.loader_began(loader)
        for number in range(1, loop.batches - loop.leaves + 1):
            if is_over:
                break
            length.batch_taken()
            taken += 1
            count = taken if loop.counts_on else number
            if count % loop.every == 0 or (loop.at_end and number == loop.batches):
                steps += 1
                length.step_ended(steps)
                is_over = steps == length.steps
    return steps, length.whole_steps(steps)


@pytest.mark.parametrize(
    ("loop", "steps", "whole"),
    [
        (Loop(8), 8, 8),
        (Loop(8, every=2), 4, 4),
        (Loop(8, every=3, at_end=True), 3, 3),
        (Loop(19, every=4, at_end=True), 5, 5),
        (Loop(8, every=3, counts_on=True), 8, 8),  # three epochs of the DataLoader
        (Loop(10, every=4, counts_on=True), 5, 5),  # two
        (Loop(8, every=3), 6, 2),  # what is left over is added to the next epoch
        (Loop(19, every=4), 12, 4),
        (Loop(8, every=8), 3, 1),
        (Loop(8, leaves=2), 6, 6),
        (Loop(120, every=3, at_end=True), 40, 40),
        (Loop(120), 50, 120),
        (Loop(1000, every=4), 50, 250),
    ],
)
def test_an_epoch_ends_where_steps_come_round(loop: Loop, steps: int, whole: int) -> None:
    assert length_of(loop) == (steps, whole)
    if not loop.leaves:  # or else it is not known before the DataLoader begins again
        assert length_of(loop, given=steps) == (steps, whole)


def test_only_steps_that_a_loop_takes_anywhere_are_recorded() -> None:
    def steps(*passes: int) -> list[StepTaken]:
        forward = ForwardPass(0.0, (1, 1), "float32", "cpu", False, Signatures((0, 0), b""))
        return [StepTaken(0.0, 1, 1, (forward,) * count, count, (0.0,)) for count in passes]

    assert alike(steps(3, 3, 3)) == []
    assert alike(steps(3, 3, 2)) == [1]
    assert alike(steps(3, 3, 5, 3, 5, 3)) == [1, 3, 5]
    assert alike(steps(3, 1)) == []
