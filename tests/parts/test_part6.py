"""Part 6: which copies of batches count, and how much of their time is hidden."""

import numpy as np
import pytest

from workshop.judge.ledger import Ledger
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
def test_the_last_copy_before_the_model_begins_counts(copied: list[tuple[float, int]], found: tuple[int, ...]) -> None:
    pictures = [encode(each) for each in np.random.default_rng(0).normal(size=(2, 1, 192)).astype(np.float32)]
    forwards = [ForwardPass(1.0 + n, (1, 3, 8, 8), "float32", "cpu", False, each) for n, each in enumerate(pictures)]
    steps = [StepTaken(each.t, 1, 1, (each,), 1, (0.0,)) for each in forwards]
    copies = [BatchCopied(t, 1, 1, pictures[1], memory) for t, memory in copied]
    assert copied_ahead(Ledger(steps=steps, copies=copies), 2) == found
