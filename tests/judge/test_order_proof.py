"""An order that is not random shows, whatever it is; a random one is never taken for another."""

import random
from collections.abc import Callable

import pytest

from workshop.judge.ledger import Ledger
from workshop.judge.order_proof import OrderReason, check_order, repeats_order
from workshop.probe.events import ForwardPass, Signatures, StepTaken

ITEMS, BATCH, EPOCHS = 39, 4, 7

Order = Callable[[random.Random, int], list[int]]


def shuffled(dice: random.Random, _: int) -> list[int]:
    return dice.sample(range(ITEMS), ITEMS)


def in_batches(dice: random.Random, _: int) -> list[int]:
    batches = [list(range(first, min(first + BATCH, ITEMS))) for first in range(0, ITEMS, BATCH)]
    last = batches.pop()
    dice.shuffle(batches)
    return [item for batch in [*batches, last] for item in batch]


def rotated(dice: random.Random, _: int) -> list[int]:
    return [*range(first := dice.randrange(ITEMS), ITEMS), *range(first)]


def in_halves(dice: random.Random, _: int) -> list[int]:
    return [*dice.sample(range(20), 20), *dice.sample(range(20, ITEMS), ITEMS - 20)]


def from_a_buffer(dice: random.Random, _: int) -> list[int]:
    buffer, order = [], []
    for item in range(ITEMS):
        buffer.append(item)
        if len(buffer) == 8:
            order.append(buffer.pop(dice.randrange(8)))
    return [*order, *dice.sample(buffer, len(buffer))]


def ledger(order: Order, seed: int, epochs: int = EPOCHS, classes: int = ITEMS, batch: int = BATCH) -> Ledger:
    dice, found = random.Random(seed), Ledger()
    for epoch in range(epochs):
        items = order(dice, epoch)
        found.loader_starts.append(float(len(found.steps)))
        for begin in range(0, len(items), batch):
            targets = tuple(item % classes for item in items[begin : begin + batch])
            t = len(found.steps) + 0.5
            forward = ForwardPass(t, (len(targets), 3, 8, 8), "float32", "cpu", False, Signatures((0, 0), b""), targets)
            found.steps.append(StepTaken(t, 1, 1, (forward,), 1, (0.0,)))
    return found


@pytest.mark.parametrize(
    ("order", "kinds"),
    [
        (lambda *_: list(range(ITEMS)), {OrderReason.REPEATED}),
        (lambda _, epoch: shuffled(random.Random(epoch % 3), 0), {OrderReason.REPEATED}),
        (in_batches, {OrderReason.SAME_BATCHES, OrderReason.REPEATED}),
        (rotated, {OrderReason.SAME_NEIGHBOURS, OrderReason.SAME_BATCHES, OrderReason.REPEATED}),
        (in_halves, {OrderReason.ALIKE}),
        (from_a_buffer, {OrderReason.ALIKE}),
    ],
)
def test_what_is_not_shuffled(order: Order, kinds: set[OrderReason]) -> None:
    for seed in range(20):
        [found] = check_order(ledger(shuffled, 99), ledger(order, seed))
        assert found.kind in kinds


@pytest.mark.parametrize("classes", [10, 20, 26, 37])
def test_what_is_shuffled_is_never_taken_for_something_else(classes: int) -> None:
    """In 100 trainings of few epochs and of more; of 39 items of few classes, few have a class of their own."""
    original = ledger(shuffled, 1000, classes=classes)
    for seed in range(100):
        assert list(check_order(original, ledger(shuffled, seed, 3 + seed % 6, classes))) == []


def test_two_epochs_suffice_to_see_a_repeated_order() -> None:
    steps = len(ledger(shuffled, 0, 1).steps)
    assert repeats_order(ledger(lambda *_: list(range(ITEMS)), 0, 2), steps)
    assert not any(repeats_order(ledger(shuffled, seed, 2), steps) for seed in range(100))


def test_an_original_that_does_not_shuffle_asks_for_nothing() -> None:
    original = ledger(lambda *_: list(range(ITEMS)), 0)
    assert list(check_order(original, ledger(rotated, 0))) == []


def test_ten_items_in_two_batches_are_together_again_by_chance() -> None:
    """In 1 of 126 pairs of epochs; in four epochs, twice in 1 of 1000 runs."""
    runs = [ledger(lambda dice, _: dice.sample(range(10), 10), seed, epochs=4, batch=5) for seed in range(1, 301)]
    original = ledger(lambda dice, _: dice.sample(range(10), 10), 0, epochs=4, batch=5)
    assert sum(any(check_order(original, run)) for run in runs) <= 2
    halves = ledger(lambda dice, _: [*dice.sample(range(5), 5), *dice.sample(range(5, 10), 5)], 0, epochs=4, batch=5)
    assert any(each.kind is OrderReason.SAME_BATCHES for each in check_order(original, halves))
