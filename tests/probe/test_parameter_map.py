"""Parameters that a script has joined, stacked or turned are found again in the other script's."""

import pytest
import torch

from workshop.probe.parameter_map import Counterpart, Fold, ParameterMap, Shape, UnmappedError, maps_of

LINEAR: list[Shape] = [(8, 8), (8,)]
EXPERT: list[Shape] = [(16, 8), (16,), (8, 16), (8,)]
JOINED: list[Shape] = [(24, 8), (24,), *LINEAR]


def ways(theirs: list[Shape], ours: list[Shape]) -> list[list[tuple[tuple[int, ...], tuple[int, ...], bool]]]:
    """For each map, the numbers of their parameters and ours that have the same values, and whether they are turned."""
    return [
        [(each.theirs, each.ours, each.fold.is_turned) for each in found.counterparts]
        for found in maps_of(theirs, ours)
    ]


@pytest.mark.parametrize(
    ("whole", "parts", "is_turned"),
    [
        ((24, 8), [(8, 8)] * 3, False),
        ((8, 24), [(8, 8)] * 3, True),
        ((8, 24), [(8, 8)] * 3, False),  # beside each other, and not turned
        ((12, 8), [(8, 8), (2, 8), (2, 8)], False),  # fewer keys and values than queries
        ((6, 4, 1, 1), [(6, 4)], False),
        ((4, 6), [(6, 4, 1)], True),
        ((4, 16, 8), [(16, 8)] * 4, False),
        ((4, 8, 16), [(16, 8)] * 4, True),
        ((3,), [(1,), (), (1,)], False),
    ],
)
def test_a_fold_gives_back_what_was_joined(whole: Shape, parts: list[Shape], is_turned: bool) -> None:
    fold = Fold.of(whole, parts, is_turned)
    assert fold
    values = [torch.randn(shape) for shape in parts]
    joined = fold.join(values)
    assert joined.shape == whole
    assert all(map(torch.equal, fold.split(joined), values))


def test_rows_of_what_is_joined_are_those_of_the_parts() -> None:
    values = [torch.randn(8, 8) for _ in range(3)]
    x = torch.randn(5, 8)
    for shape, is_turned in ((24, 8), False), ((8, 24), True):
        fold = Fold.of(shape, [(8, 8)] * 3, is_turned)
        assert fold
        weight = fold.join(values)
        found = x @ weight if is_turned else x @ weight.T
        assert torch.allclose(found, torch.cat([x @ each.T for each in values], 1), atol=1e-5)


def test_one_projection_for_query_key_and_value() -> None:
    first, *others = ways(JOINED, LINEAR * 4)
    assert first == [((0,), (0, 2, 4), False), ((1,), (1, 3, 5), False), ((2,), (6,), False), ((3,), (7,), False)]
    assert [((0,), (4, 0, 2), False), ((1,), (5, 1, 3), False), *first[2:]] in others, "in any order"
    assert ways(LINEAR * 4, JOINED)[0] == [(ours, theirs, turned) for theirs, ours, turned in first], "and back"


@pytest.mark.parametrize(
    ("theirs", "ours", "links"),
    [
        ([(4, 16, 8), (4, 16), (4, 8, 16), (4, 8)], EXPERT * 4, 4),
        ([(64, 8), (64, 16), (64,), (64,)], [(16, 8), (16, 16), (16,), (16,)] * 4, 4),  # the gates of an LSTM
        ([(5, 8), *JOINED, (3, 5)], [*LINEAR * 4, (3, 5), (5, 8)], 6),  # defined in another order
        ((JOINED + EXPERT) * 100, (LINEAR * 4 + EXPERT) * 100, 800),
        ([(2, 3), (4,)], [(10,)], 0),
        ([(5, 5), (5,)], [(6, 5)], 1),  # a bias that is a row of the weight
    ],
)
def test_folds_are_found_by_shape_and_order(theirs: list[Shape], ours: list[Shape], links: int) -> None:
    assert [len(way) for way in ways(theirs, ours)[:1]] == [links] * bool(links)


def test_matrices_are_turned_where_they_must_be_or_can_be() -> None:
    plain, turned = maps_of([(8, 8), (8,)], [(8, 8), (8,)])
    assert plain.is_plain
    assert not turned.is_plain
    [only] = ways([(8, 16), (8, 8)], [(16, 8), (8, 8)])[:1]
    assert [is_turned for *_, is_turned in only] == [True, False]


def test_what_parts_do_not_share_cannot_be_given_to_their_whole() -> None:
    fold = Fold.of((24, 8), [(8, 8)] * 3, is_turned=False)
    assert fold
    counterpart = Counterpart(fold, 0, (0, 1, 2), is_theirs=False)
    assert counterpart.carried([0.1, 0.1, 0.1]) == [0.1]
    [joined] = counterpart.carried([None, torch.ones(8, 8), None])
    assert joined.sum(1).tolist() == [0] * 8 + [8] * 8 + [0] * 8
    for things in [0.1, 0.1, 0.2], [torch.ones(8)] * 3:
        with pytest.raises(UnmappedError):
            counterpart.carried(things)
    assert ParameterMap([]).is_plain
