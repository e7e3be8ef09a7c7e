"""A table that gets a line for each step gets one from who is faster, too, however it is written."""

from collections.abc import Sequence

import pytest

from workshop.judge.ledger import Ledger
from workshop.judge.output_proof import OutputReason, check_written
from workshop.probe.events import Event, LinesWritten

STEPS = 10


def written(lines: Sequence[int], width: int = 20, name: str = "metrics.csv", runs: int = 1) -> Ledger:
    """The ledger of a script that writes so many lines in each of its epochs, in each of its runs."""
    return Ledger.of_events(
        event
        for run in range(runs)
        for event in (LinesWritten(0.0, 1, 1, name, count, count * width, STEPS, run) for count in lines)
    )


ORIGINAL = written([10, 10, 10, 10])


@pytest.mark.parametrize(
    ("candidate", "share"),
    [
        (written([3, 2, 2, 2]), 0.3),
        (written([6, 5, 5, 5]), 0.7),
        (written([1, 0, 10, 0, 10, 0, 10]), 31 / 60),  # at the end of every second epoch, for one of them
        (written([3, 2, 2], runs=2), 14 / 40),
    ],
)
def test_fewer_lines_for_each_step_are_refused(candidate: Ledger, share: float) -> None:
    [found] = check_written(ORIGINAL, candidate)
    assert (found.kind, found.about, found.is_unseen) == (OutputReason.FEWER_LINES, ("metrics.csv",), False)
    assert found.figures == {"candidate": pytest.approx(share), "original": 1.0}
    assert str(found) == f"metrics.csv gets {share:.2g} lines for each step, in the original 1"


@pytest.mark.parametrize(
    "candidate",
    [
        ORIGINAL,
        written([9, 10]),  # the line of the last step comes later
        written([10, 10, 10], width=5),  # with fewer digits
        written([1, 10, 10]),  # at the end of each epoch
        written([1, 0, 20, 0, 20, 0]),  # of every second one
        written([1, 0, 0]),  # when the run ends
        written([1, 0, 0], runs=3),
        written([0, 0, 0]),
        written([1, 1, 1], width=200),  # another format, with an epoch in a line
        written([2, 2, 2], name="other.csv"),
        Ledger(),
    ],
)
def test_as_much_in_another_way_is_fine(candidate: Ledger) -> None:
    assert list(check_written(ORIGINAL, candidate)) == []


@pytest.mark.parametrize("lines", [[1, 1, 1, 1], [10, 2, 10, 10], [0, 0, 0, 0]])
def test_what_the_original_writes_now_and_then_is_not_compared(lines: list[int]) -> None:
    """As by the clock: of who is faster, a log of that kind has fewer lines for each step."""
    assert list(check_written(written(lines), written([1, 1, 1]))) == []


def test_the_lines_are_those_of_all_ranks() -> None:
    ledger = Ledger.of_ranks([ORIGINAL, Ledger.of_events(list[Event]())])
    assert ledger.written == ORIGINAL.written
