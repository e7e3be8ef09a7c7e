"""What the bench makes of what the scripts report."""

import pytest

from workshop.judge.bench import hidden_share


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
