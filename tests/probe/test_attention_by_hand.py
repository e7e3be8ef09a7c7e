"""Attention that is written as a softmax between two products of matrices."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.observations import Trial
from workshop.probe.trials.attention_by_hand import AttentionByHand, attention_in

HEADS, WIDTH, LENGTH = 2, 8, 5
LATER = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
BIAS = torch.randn(LENGTH, LENGTH)

Mix = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""What makes the output of heads, of queries, keys and values."""


class Attends(nn.Module):
    """A layer whose heads are mixed in some way."""

    def __init__(self, mix: Mix) -> None:
        super().__init__()
        self.mix, self.project = mix, nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        heads = (each.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for each in self.project(inputs).chunk(3, -1))
        return self.mix(*heads).transpose(1, 2).flatten(2)


def plain(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return (query @ keys.mT / WIDTH**0.5).softmax(-1) @ values


def causal(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    scores = torch.matmul(query, keys.transpose(-2, -1)).mul_(WIDTH**-0.5).masked_fill(LATER, float("-inf"))
    return functional.dropout(functional.softmax(scores, dim=-1), 0.25) @ values


def with_bias(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    weights = (torch.einsum("bhid,bhjd->bhij", query, keys) + BIAS).softmax(-1)
    return torch.einsum("bhij,bhjd->bhid", weights, values)


def capped(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return (query @ keys.mT).tanh_().softmax(-1) @ values


def over_queries(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return (query @ keys.mT).softmax(-2) @ values


def of_weights_turned(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return (query @ keys.mT).softmax(-1).mT @ values


def at_once(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, keys, values)


class Gated(nn.Module):
    """The scores are those of a layer: no keys enter."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(HEADS * WIDTH, 4, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.gate(inputs).softmax(-1) @ inputs[:, :4]


INPUTS = torch.randn(3, LENGTH, HEADS * WIDTH)


@pytest.mark.parametrize(
    ("mix", "scale", "dropout", "is_causal"),
    [(plain, WIDTH**-0.5, 0.0, False), (causal, WIDTH**-0.5, 0.25, True), (with_bias, 1.0, 0.0, False)],
)
def test_attention_is_found_however_it_is_written(mix: Mix, scale: float, dropout: float, is_causal: bool) -> None:
    model = Attends(mix)
    (found,) = attention_in(model, (INPUTS,), {})
    assert (found.scale, found.dropout) == (pytest.approx(scale), pytest.approx(dropout))
    assert found.is_causal == is_causal
    assert (found.mask is None) == (mix is plain)
    assert (found.stack[-1][0], found.stack[-1][1]) == (mix.__name__, __file__)
    if not dropout:
        heads = found.at_once(*found.entering).unflatten(0, (-1, HEADS))
        assert torch.allclose(heads.transpose(1, 2).flatten(2), model(INPUTS), atol=1e-5)


@pytest.mark.parametrize("mix", [capped, over_queries, of_weights_turned, at_once])
def test_what_one_operator_does_not_compute_is_none(mix: Mix) -> None:
    assert attention_in(Attends(mix), (INPUTS,), {}) == []


def test_a_layer_before_a_softmax_is_no_attention() -> None:
    assert attention_in(Gated(), (INPUTS,), {}) == []


def tried(model: nn.Module, inputs: torch.Tensor, path: Path) -> list[Trial]:
    AttentionByHand(EventFile(str(path))).before_model(model, (inputs,), {}, times=2.0)
    return read_observations(path, [os.getpid()]).raced


@pytest.mark.parametrize(("mix", "setting"), [(plain, ""), (causal, ", with is_causal=True")])
def test_all_of_a_line_are_tried_together(mix: Mix, setting: str, tmp_path: Path) -> None:
    model = nn.Sequential(Attends(mix), Attends(mix))
    state = torch.get_rng_state()
    (trial,) = tried(model, INPUTS, tmp_path)
    assert (trial.error, trial.about, trial.setting) == ("", "6 x 5 x 5 weights, 2 times", setting)
    assert trial.stack[-1][2] == mix.__code__.co_firstlineno + 1 + (mix is causal)
    assert (trial.times, trial.draws) == (2.0, mix is causal)
    assert trial.difference is None or trial.difference < 1e-5
    assert all(each.grad is None for each in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_that_cannot_be_copied_is_left_alone(tmp_path: Path) -> None:
    model = Attends(plain)
    model.lock = os  # type: ignore[assignment]  # a module cannot be copied
    assert tried(model, INPUTS, tmp_path) == []
