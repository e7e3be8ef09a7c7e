"""What the bench makes of what the scripts report."""

import numpy as np
import pytest

from workshop.judge.ledger import Ledger
from workshop.judge.verdict import Outcome, UnseenWork, other_work
from workshop.parts.part6.copies_check import copied_ahead, hidden_share
from workshop.probe.events import BatchCopied, ForwardPass, StepTaken
from workshop.probe.signature import encode


@pytest.mark.parametrize(
    ("copies", "kernels", "share"),
    [
        ([(0, 20), (50, 60), (80, 90)], [(10, 40), (15, 55), (200, 300)], 15 / 40),
        ([(0, 20), (10, 30)], [(0, 30)], 1.0),
        ([(0, 10)], [], 0.0),
        ([], [(0, 10)], 0.0),
    ],
)
def test_the_share_of_copies_that_is_hidden(copies: list[tuple[int, int]], kernels: list, share: float) -> None:
    assert hidden_share({"copies": copies, "kernels": kernels}) == pytest.approx(share)


@pytest.mark.parametrize(
    ("copied", "found"),
    [
        ([(0.5, 1)], (1, 0, 1)),
        ([(1.5, 1)], (0, 0, 1)),
        ([(0.5, 1), (1.5, 1)], (1, 0, 1)),  # it was there already
        ([(0.5, 1), (1.5, 2)], (0, 1, 1)),  # the first copy was for show
        ([(0.5, 1), (2.5, 2)], (1, 0, 1)),
    ],
)
def test_the_copy_that_is_used_counts(copied: list[tuple[float, int]], found: tuple[int, int, int]) -> None:
    """That is the last one before the model begins."""
    pictures = np.random.default_rng(0).normal(size=(2, 1, 192)).astype(np.float32)
    forwards = [
        ForwardPass(t, (1, 3, 8, 8), "float32", "cpu", False, encode(each), (0,))
        for t, each in zip((1.0, 2.0), pictures, strict=True)
    ]
    steps = [StepTaken(each.t, 1, 1, (each,), 1, (0.0,)) for each in forwards]
    copies = [BatchCopied(t, 1, 1, encode(pictures[1]), memory) for t, memory in copied]
    assert copied_ahead(Ledger(steps=steps, copies=copies), 2) == found


def test_what_cannot_be_seen_is_no_accusation() -> None:
    assert other_work("mine.py", []) is None
    verdict = other_work("mine.py", [UnseenWork("the loss")])
    assert verdict
    assert (verdict.outcome, verdict.reasons) == (
        Outcome.UNDECIDED,
        ("the judge cannot see whether it is the same work: the loss",),
    )
    verdict = other_work("mine.py", ["it is smaller", UnseenWork("the loss")])
    assert verdict
    assert (verdict.outcome, verdict.reasons) == (Outcome.OTHER_WORK, ("it is smaller",))
