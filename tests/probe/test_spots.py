"""A few values show whether a tensor was moved."""

import pytest
import torch
from torch import nn

from workshop.probe.spots import VALUES, Spots, moved


@pytest.fixture
def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4, 1)).to(memory_format=torch.channels_last)


def test_what_a_step_moves_and_what_is_moved_between_steps(model: nn.Sequential) -> None:
    spots = Spots(list(model.parameters()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    first = spots.values([optimizer])
    assert first.rows().shape == (4, VALUES), "there is no state before the first step"
    model(torch.randn(2, 3, 3, 3)).sum().backward()
    optimizer.step()
    after = spots.values([optimizer])
    assert after.rows().shape == (4 + 4 * 3, VALUES), "the step, and two means for each parameter"
    assert (spots.still(first, after), moved(first, after)) == ((), (0, 1, 2, 3))
    assert spots.still(after, spots.values([optimizer])) == (0, 1, 2, 3)

    with torch.no_grad():
        model[2].bias.add_(1.0)
    for state in optimizer.state.values():
        state["exp_avg"].zero_()
    found = moved(after, spots.values([optimizer]))
    assert found[0] == 3, "a tensor of one value"
    assert len(found) == 1 + 4
    optimizer.state.clear()
    assert moved(after, spots.values([optimizer])) == (3, *range(4, 16)), "a state that is gone has changed"


def test_a_parameter_that_gets_another_memory_is_looked_at_there(model: nn.Sequential) -> None:
    spots = Spots(list(model.parameters()))
    before = spots.values([])
    model[2].weight.data = model[2].weight.data + 1.0
    assert moved(before, spots.values([])) == (2,)


def test_a_tensor_without_values_and_one_with_gaps_are_not_looked_at() -> None:
    empty, gaps = nn.Parameter(torch.empty(0)), nn.Parameter(torch.zeros(8, 8)[:, ::2])
    expanded = nn.Parameter(torch.zeros(1).expand(8))
    assert Spots([empty, gaps, expanded]).values([]).rows().shape == (3, VALUES)


def test_two_scripts_are_looked_at_in_the_same_places() -> None:
    parameter = nn.Parameter(torch.randn(10_000))
    assert torch.equal(Spots([parameter]).values([]).rows(), Spots([parameter]).values([]).rows())


def test_no_number_is_the_same_as_no_number(model: nn.Sequential) -> None:
    spots = Spots(list(model.parameters()))
    with torch.no_grad():
        model[2].bias.fill_(torch.nan)
    assert moved(spots.values([]), spots.values([])) == ()
    assert (spots.still(None, spots.values([])), moved(None, None)) == ((), ())


@pytest.mark.parametrize(("size", "place"), [(size, place) for size in (1, 2, 3, 4) for place in range(size)])
def test_of_a_small_tensor_all_values_are_looked_at(size: int, place: int) -> None:
    """A bias of three may have a gradient in one of its values alone."""
    tensor = torch.zeros(size)
    spots = Spots([tensor])
    before = spots.values([])
    tensor[place] = 1.0
    assert moved(before, spots.values([])) == (0,)
