"""How long a check takes is said beforehand, and why."""

import pytest

from workshop.judge.time_plan import why_long


@pytest.mark.parametrize(
    ("passed_s", "original_s", "candidate_s", "solution", "says"),
    [
        (14.0, 5.3, 2.7, False, ""),
        (14.0, 5.3, 2.7, True, "This takes about 68 s: the solution is timed, too, to see what this machine allows."),
        (40.0, 20.0, 6.0, False, "This takes about 150 s: the first epochs took 20.0 s unchanged and 6.0 s now."),
        (3.0, 1.0, 1.0, True, ""),
    ],
)
def test_a_check_of_more_than_a_minute_is_announced(
    passed_s: float, original_s: float, candidate_s: float, solution: bool, says: str
) -> None:
    assert why_long(passed_s, original_s, candidate_s, solution) == says
