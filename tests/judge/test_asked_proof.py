"""What a DataLoader asks for shows which items a script trains on, whatever the items are."""

import random
from collections.abc import Callable, Iterable

import pytest

from workshop.judge.asked_proof import AskedReason, check_asked
from workshop.judge.ledger import Ledger
from workshop.judge.order_proof import OrderReason, check_order
from workshop.probe.events import AskedFor, ForwardPass, LoaderStarted, SamplerDrawn, Signatures, StepTaken

ITEMS, BATCH = 960, 16

Order = Callable[[random.Random, int], Iterable[int]]


def ledger(order: Order, seed: int, epochs: int = 2, steps: int = 60, items: int = ITEMS, of: int = ITEMS) -> Ledger:
    """A script that takes so many steps in each epoch of its DataLoader."""
    dice, found = random.Random(seed), Ledger()
    for epoch in range(epochs):
        loader = LoaderStarted(float(epoch), 1, 1, workers=0, items=items, of=of)
        found.loaders.append(loader)
        indexes = list(order(dice, epoch))
        for first in range(0, steps * BATCH, BATCH):
            batch = tuple(indexes[first : first + BATCH])
            forward = ForwardPass(0.0, (len(batch), 4), "float32", "cpu", False, Signatures((0, 0), b""))
            found.steps.append(StepTaken(0.0, 1, 1, (forward,), 1, (0.0,), asked=(AskedFor(0, epoch, batch),)))
    return found


def shuffled(dice: random.Random, _: int) -> list[int]:
    return dice.sample(range(ITEMS), ITEMS)


def in_order(_: random.Random, __: int) -> range:
    return range(ITEMS)


def from_a_buffer(dice: random.Random, _: int) -> list[int]:
    blocks = [list(range(first, min(first + 64, ITEMS))) for first in range(0, ITEMS, 64)]
    return [index for block in blocks for index in dice.sample(block, len(block))]


def in_batches(dice: random.Random, _: int) -> list[int]:
    return [first + place for first in dice.sample(range(0, ITEMS, BATCH), ITEMS // BATCH) for place in range(BATCH)]


def twice(dice: random.Random, _: int) -> list[int]:
    half = [dice.randrange(2) + 2 * index for index in range(ITEMS // 2)]
    return dice.sample([*half, *half], ITEMS)


def of_the_first_third(dice: random.Random, _: int) -> list[int]:
    return [index // 3 for index in dice.sample(range(ITEMS), ITEMS)]


def sorted_in_batches(dice: random.Random, epoch: int) -> list[int]:
    order = shuffled(dice, epoch)
    return [index for first in range(0, ITEMS, BATCH) for index in sorted(order[first : first + BATCH])]


@pytest.mark.parametrize("steps", [60, 20])  # of 60
@pytest.mark.parametrize(
    ("order", "kind"),
    [
        (in_order, AskedReason.NEIGHBOURS_IN_BATCH),
        (from_a_buffer, AskedReason.NEIGHBOURS_IN_BATCH),
        (in_batches, AskedReason.NEIGHBOURS_IN_BATCH),
        (of_the_first_third, AskedReason.AGAIN),
    ],
)
def test_items_that_come_otherwise_are_seen_in_whole_epochs_and_in_cut_ones(
    order: Order, kind: AskedReason, steps: int
) -> None:
    for seed in range(3):
        [found] = check_asked(ledger(shuffled, 100 + seed, steps=steps), ledger(order, seed, steps=steps))
        assert found.kind is kind


def test_items_that_come_twice_in_place_of_others_are_seen() -> None:
    [found] = check_asked(ledger(shuffled, 1), ledger(twice, 2))
    assert found == AskedReason.AGAIN(candidate=0.5, original=0.0)


def test_a_shorter_dataset_is_seen_in_one_step() -> None:
    half = ledger(lambda dice, _: dice.sample(range(ITEMS // 2), ITEMS // 2), 1, 1, 1, ITEMS // 2, ITEMS // 2)
    [found] = check_asked(ledger(shuffled, 2, 1, 1), half)
    assert found == AskedReason.OTHER_LENGTH(candidate=ITEMS // 2, original=ITEMS)


@pytest.mark.parametrize("order", [shuffled, sorted_in_batches])
def test_as_random_an_order_is_the_same(order: Order) -> None:
    for seed in range(10):
        assert list(check_asked(ledger(shuffled, 100 + seed), ledger(order, seed))) == []


def weighted(dice: random.Random, _: int) -> list[int]:
    return dice.choices(range(ITEMS), [1 + 4 * (index % 7 == 0) for index in range(ITEMS)], k=ITEMS)


def with_replacement(dice: random.Random, _: int) -> list[int]:
    return dice.choices(range(ITEMS), k=ITEMS)


def test_what_the_sampler_prefers_must_come_as_often() -> None:
    original = ledger(weighted, 4)
    counts = tuple(50 if index % 7 == 0 else 10 for index in range(ITEMS))
    original.sampled = SamplerDrawn(0.0, 1, 1, tuple(range(ITEMS)), counts)
    assert list(check_asked(original, ledger(weighted, 2))) == []
    [found] = check_asked(original, ledger(with_replacement, 3))
    assert found.kind is AskedReason.OTHER_WEIGHTS


def test_a_dataset_of_whole_batches_is_not_compared_by_its_indexes() -> None:
    of_batches = ledger(in_order, 1, items=ITEMS // BATCH, of=ITEMS // BATCH)
    for step in of_batches.steps:
        object.__setattr__(step, "asked", tuple(AskedFor(0, each.epoch, each.indexes[:1]) for each in step.asked))
    assert list(check_asked(ledger(shuffled, 2), of_batches)) == []


def test_the_same_order_in_each_epoch_is_seen_without_targets() -> None:
    same = ledger(lambda _, __: shuffled(random.Random(5), 0), 1)
    [found] = check_order(ledger(shuffled, 2), same)
    assert found.kind is OrderReason.REPEATED
