"""Inputs beside what the original makes of the same items: the same, drawn alike, or neither."""

from collections.abc import Callable

import pytest
import torch

from workshop.judge.item_proof import ItemReason, are_made_alike, check_made_anew
from workshop.judge.ledger import Ledger
from workshop.probe.made_anew import Entered, compared
from workshop.probe.messages import MadeAnew, Recomputation
from workshop.probe.settings import DRAWS

ITEMS, STEPS = 12, 3

Draw = Callable[[torch.Tensor, torch.Generator], list[torch.Tensor]]


def noisy(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    """Two views of each item, with noise of their own."""
    return [items + torch.randn(items.shape, generator=dice) for _ in range(2)]


def less_noise(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    return [items + 0.7 * torch.randn(items.shape, generator=dice) for _ in range(2)]


def second_from_first(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    one = items + torch.randn(items.shape, generator=dice)
    return [one, one + 0.5 * torch.randn(items.shape, generator=dice)]


def in_steps(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    return [each[:, ::4].repeat_interleave(4, 1) for each in noisy(items, dice)]


def of_the_batch(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    return [items + torch.randn(items.shape[1:], generator=dice) for _ in range(2)]


def always_the_same(items: torch.Tensor, _: torch.Generator) -> list[torch.Tensor]:
    return [items, items]


def of_others(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    return noisy(items.roll(1, 0), dice)


def made(original: Draw, candidate: Draw, seed: int, same_seed: bool = False) -> list[MadeAnew]:
    """Compare some steps of the candidate, whose targets name the items."""
    dice, found = torch.Generator().manual_seed(seed), []
    for step in range(STEPS):
        items, numbers = 3 * torch.randn(ITEMS, 32, generator=dice), torch.arange(ITEMS)

        def entered(
            draw: Draw, draw_seed: int, items: torch.Tensor = items, numbers: torch.Tensor = numbers
        ) -> Entered:
            inputs = draw(items, torch.Generator().manual_seed(draw_seed))
            return Entered([(0, list(inputs)), (-1, [numbers])])

        seeds = [100 * (seed + 1) + 10 * step + draw for draw in range(DRAWS + 2)]
        recorded = entered(candidate, seeds[0] if same_seed else seeds[-1])
        addresses = [(0, tuple(range(ITEMS)), seeds[0] if same_seed else None)]
        first = compared(addresses, recorded, [entered(original, seeds[0])], 1.0)
        draws = [entered(original, each) for each in seeds[:-1]]
        found.append(first if first.same == ITEMS else compared(addresses, recorded, draws, 1.0))
    return found


def says(original: Draw, candidate: Draw, seed: int, own: Draw | None = None) -> list[str]:
    ledgers = (
        Ledger(recomputed=[Recomputation(made=each) for each in of])
        for of in (made(original, own or original, seed + 500), made(original, candidate, seed))
    )
    return [reason.kind.label for reason in check_made_anew(*ledgers)]


def test_the_same_draws_in_the_same_order_give_the_same_inputs() -> None:
    assert [each.same for each in made(noisy, noisy, 1, same_seed=True)] == [ITEMS] * STEPS


@pytest.mark.parametrize("draw", [noisy, of_the_batch, always_the_same])
def test_other_draws_of_the_same_items_are_alike(draw: Draw) -> None:
    assert [seed for seed in range(40) if says(draw, draw, seed)] == []


@pytest.mark.parametrize("cheat", [less_noise, of_the_batch, second_from_first, in_steps, always_the_same, of_others])
def test_what_is_not_drawn_alike_is_seen(cheat: Draw) -> None:
    for seed in range(10):
        assert says(noisy, cheat, seed) == [ItemReason.DRAWN_OTHERWISE.label]


def test_inputs_that_are_always_the_same_must_be_those() -> None:
    def rounded(items: torch.Tensor, _: torch.Generator) -> list[torch.Tensor]:
        return [items.half().float()] * 2

    def coarse(items: torch.Tensor, _: torch.Generator) -> list[torch.Tensor]:
        return [(items * 8).round() / 8] * 2

    assert says(always_the_same, rounded, 1) == []
    assert says(always_the_same, coarse, 1) == [ItemReason.OTHER_INPUTS.label]


def test_an_original_that_does_not_draw_alike_itself_asks_for_nothing() -> None:
    assert says(noisy, second_from_first, 1, own=less_noise) == []


def rolled(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    """Each item is turned by a draw of its own, as a crop has a place of its own."""
    shifts = torch.randint(items.shape[1], (len(items),), generator=dice).tolist()
    return [torch.stack([item.roll(shift) for item, shift in zip(items, shifts, strict=True)])]


def rolled_and_coarse(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    return [(each / 2).round() * 2 for each in rolled(items, dice)]


def rolled_and_as_bytes(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    return [(each * 16).round() / 16 for each in rolled(items, dice)]


def rolled_with_noise(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    return [each + torch.randn(items.shape, generator=dice) / 4 for each in rolled(items, dice)]


def rolled_with_other_noise(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
    return [each + torch.randn(items.shape) / 4 for each in rolled(items, dice)]


@pytest.mark.parametrize(
    ("original", "candidate", "kind"),
    [
        (rolled, rolled_and_coarse, ItemReason.DRAWN_OTHERWISE),
        (rolled, rolled_with_other_noise, ItemReason.DRAWN_OTHERWISE),
        (rolled_with_noise, rolled_with_other_noise, ItemReason.OFF_IN_PART),  # as where it is drawn on the device
    ],
)
def test_what_is_off_with_the_same_draws(original: Draw, candidate: Draw, kind: ItemReason) -> None:
    found = Ledger(recomputed=[Recomputation(made=each) for each in made(original, candidate, 1, same_seed=True)])
    [reason] = check_made_anew(Ledger(), found)
    assert reason.kind is kind
    [reason] = check_made_anew(Ledger(), found, draws_are_known=True)
    assert (reason.kind, reason.figures["count"]) == (ItemReason.OFF, ITEMS * STEPS)


def test_with_draws_that_are_known_to_be_the_same_one_step_of_few_items_tells() -> None:
    """By itself, that so few are nearest to what their seeds make may be chance."""
    made_of_few = [
        MadeAnew(items=4, is_seeded=True, nearest=3, varies=True, errors=errors, by_chance=0.1)
        for errors in ([0.9, 0.5, 1.2, 0.8], [0.01, 0.02, 0.01, 0.02])
    ]
    grey, exact = (Ledger(recomputed=[Recomputation(made=each)]) for each in made_of_few)
    assert list(check_made_anew(Ledger(), grey, draws_are_known=True)) == []
    [reason] = check_made_anew(Ledger(), grey, draws_are_known=True, draws_are_shared=True)
    assert (reason.kind, reason.is_unseen) == (ItemReason.OFF, False)
    assert list(check_made_anew(Ledger(), exact, draws_are_known=True, draws_are_shared=True)) == []


def test_what_is_kept_as_bytes_is_made_alike() -> None:
    candidate = Ledger(
        recomputed=[Recomputation(made=each) for each in made(rolled, rolled_and_as_bytes, 1, same_seed=True)]
    )
    assert are_made_alike(candidate.recomputed)
    assert list(check_made_anew(Ledger(), candidate, draws_are_known=True)) == []


def test_the_target_of_another_item_is_another_input_whatever_is_drawn_beside_it() -> None:
    def exchanged(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
        return [*rolled(items, dice), torch.arange(ITEMS).roll(1)]

    def own(items: torch.Tensor, dice: torch.Generator) -> list[torch.Tensor]:
        return [*rolled(items, dice), torch.arange(ITEMS)]

    found = made(own, exchanged, 1, same_seed=True)
    [reason] = check_made_anew(Ledger(), Ledger(recomputed=[Recomputation(made=each) for each in found]))
    assert (reason.kind, reason.figures["count"]) == (ItemReason.OTHER_INPUTS, ITEMS * STEPS)


def test_items_that_nothing_shows_to_be_the_same_are_no_accusation() -> None:
    """A dataset may have its items in another order."""
    inputs = [torch.randn(ITEMS, 32) for _ in range(DRAWS + 1)]
    entered = [Entered([(0, [each])]) for each in (torch.randn(ITEMS, 32), *[inputs[0]] * (DRAWS + 1))]
    found = compared([(0, tuple(range(ITEMS)), None)], entered[0], entered[1:], 1.0)
    recomputed = [Recomputation(made=found)]
    [reason] = check_made_anew(Ledger(), Ledger(recomputed=recomputed))
    assert (reason.kind, reason.is_unseen) == (ItemReason.OTHER_ITEMS, True)


def test_inputs_of_other_shapes_are_not_compared() -> None:
    one, other = (Entered([(0, [torch.zeros(4, width)])]) for width in (3, 5))
    assert compared([(0, (1, 2, 3, 4), None)], one, [other], 1.0).error
