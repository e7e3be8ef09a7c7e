"""What a part asks for on a machine follows from what its solution reaches there."""

from pathlib import Path

import pytest

from workshop.course.checks import config_of, contest_of
from workshop.judge.contest import MIN_TARGET
from workshop.parts import Part, all_parts
from workshop.parts.case import case_names


@pytest.mark.parametrize(
    "part", [part for part in all_parts() if part.change and part.change.target > 1], ids=lambda part: part.name
)
def test_a_target_is_never_more_than_the_parts_and_never_so_little_that_nothing_done_is_enough(part: Part) -> None:
    assert not case_names(part)
    contest = contest_of(part, Path("train.py"), config_of(part, None), Path("data"), "cpu")
    targets = [contest.target_here(ratio / 10) for ratio in range(1, 200)]
    assert contest.target_here(None) == contest.target == max(targets)
    assert min(targets) == MIN_TARGET > 1
    assert targets == sorted(targets)
    assert all(target < ratio / 10 for ratio, target in enumerate(targets, 1) if target > MIN_TARGET)
