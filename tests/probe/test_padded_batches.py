"""Batches that are padded to a fixed length."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.observations import Trial
from workshop.probe.trials.padded_batches import PaddedInputs, padding_in, shortened

LENGTH = 64


class Tagger(nn.Module):
    def __init__(self, whole: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.recur = nn.GRU(32, 32, batch_first=True)
        self.out = nn.Linear(32 * LENGTH, 4) if whole else nn.Linear(32, 4)
        self.whole = whole

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        inner, _ = self.recur(self.embed(tokens) * mask[..., None])
        return self.out(inner.flatten(1) if self.whole else inner)


def batch(longest: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, mask = torch.zeros(8, LENGTH, dtype=torch.long), torch.zeros(8, LENGTH)
    for row in range(8):
        length = longest if row == 0 else longest // 2
        tokens[row, :length] = torch.randint(1, 50, (length,))
        mask[row, :length] = 1.0
    return tokens, mask


def tried(model: nn.Module, batches: list[tuple[torch.Tensor, ...]], path: Path) -> list[Trial]:
    padding = PaddedInputs(EventFile(str(path)))
    for each in batches:
        padding.before_forward(model, each, {})
        padding.on_step_end(1)
    padding.end()
    return [each for each in read_observations(path, [os.getpid()]).raced if each.applies]


def test_the_model_is_tried_on_what_is_no_padding(tmp_path: Path) -> None:
    (trial,) = tried(Tagger(), [batch(longest) for longest in (20, 24, 16, 24, 60, 24)], tmp_path)
    assert (trial.name, trial.error) == ("padded-batches", "")
    assert trial.about == "About 40 of 64 positions in the inputs of model"
    assert trial.times == 1.0
    assert trial.changed_s > 0


@pytest.mark.parametrize("longest", [(60, 64, 58, 62, 61, 60), (20,) * 6])
def test_little_padding_or_always_the_same_is_none(longest: tuple[int, ...], tmp_path: Path) -> None:
    """What is always the same may be a border of all pictures."""
    assert tried(Tagger(), [batch(each) for each in longest], tmp_path) == []


def test_a_model_that_needs_one_length_is_left_alone(tmp_path: Path) -> None:
    assert tried(Tagger(whole=True), [batch(longest) for longest in (20, 24, 16, 24, 20, 24)], tmp_path) == []


def test_what_cannot_be_looked_at_is_left_alone(tmp_path: Path) -> None:
    sparse = torch.eye(64).to_sparse()
    assert tried(nn.Linear(64, 4), [(sparse,)] * 6, tmp_path) == []
    padding = PaddedInputs(EventFile(str(tmp_path)))
    model = nn.Linear(64, 4)

    def call(inputs: torch.Tensor) -> torch.Tensor:
        padding.before_forward(model, (inputs,), {})
        return model(inputs)

    assert torch.vmap(call)(torch.randn(3, 8, 64)).shape == (3, 8, 4)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (batch(20), {64: 44}),
        ((batch(20)[0], torch.ones(8, 64)), {64: 44}),  # a mask of ones tells nothing
        ((batch(20)[0], {"labels": torch.nn.functional.pad(torch.rand(8, 30), (0, 34), value=-100)}), {64: 34}),
        (torch.rand(4, 64, 20), {64: 0, 20: 0}),
        (torch.ones(4, 64), {}),
        ((torch.rand(64), 5, "text"), {}),
    ],
)
def test_how_much_is_padding(arguments: Any, found: dict[int, int]) -> None:
    assert padding_in(arguments) == found


def test_what_has_the_length_is_shortened() -> None:
    assert shortened(torch.ones(2, 64, 64), 64, 20).shape == (2, 20, 20)
    assert shortened(torch.ones(2, 32), 64, 20).shape == (2, 32)
    assert shortened("text", 64, 20) == "text"
