"""Random states that come by chance are told from those that were chosen for what they make a transform do."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from workshop.judge.draw_proof import chance_of_numbers
from workshop.judge.two_samples import TOO_RARE
from workshop.probe.transforms import DRAWN_NUMBERS, next_numbers


def read(digits: str) -> list[int]:
    return [int(digits[place : place + 8], 16) for place in range(0, len(digits), 8)]


def drawn(count: int, seed: int) -> NDArray[np.uint32]:
    return np.random.default_rng(seed).integers(2**32, size=(count, DRAWN_NUMBERS), dtype=np.uint32)


def test_the_numbers_are_those_that_torch_draws_next_and_stay_to_be_drawn() -> None:
    torch.manual_seed(5)
    numbers = read(next_numbers())
    assert len(numbers) == DRAWN_NUMBERS
    assert read(next_numbers()) == numbers
    assert [int(torch.randint(25, ())) for _ in range(2)] == [number % 25 for number in numbers[:2]]
    assert [float(torch.rand(())) for _ in range(2)] == [number % 2**24 / 2**24 for number in numbers[2:]]


def test_what_comes_by_chance_passes() -> None:
    assert min(chance_of_numbers(drawn(count, seed)) for count in (1, 30, 300) for seed in range(100)) > 1e-3


def test_seeds_in_a_row_are_no_choice() -> None:
    states = []
    for seed in range(300):
        torch.manual_seed(seed)
        states.append(read(next_numbers()))
    assert chance_of_numbers(np.array(states, np.uint32)) > 1e-3


@pytest.mark.parametrize(
    ("is_liked", "count"),
    [
        (lambda numbers: numbers[:, 0] % 25 % 2 == 0, 120),
        (lambda numbers: numbers[:, 0] % 25 < 3, 44),
        (lambda numbers: numbers[:, 2] % 2**24 > 0.5 * 2**24, 60),
    ],
    ids=["every-second-policy", "three-policies", "not-applied"],
)
def test_what_is_chosen_is_found(is_liked: object, count: int) -> None:
    numbers = drawn(50 * count, 1)
    liked = numbers[is_liked(numbers)][:count]  # type: ignore[operator]
    assert len(liked) == count
    assert chance_of_numbers(liked) < TOO_RARE
