"""Losses that ignore most of their targets."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.observations import Trial
from workshop.probe.trials.ignored_targets import IgnoredTargets

WORDS = 500


def per_class(logits: torch.Tensor, targets: torch.Tensor) -> tuple[Any, ...]:
    return logits.transpose(1, 2), targets


def flat(logits: torch.Tensor, targets: torch.Tensor) -> tuple[Any, ...]:
    return logits.flatten(0, 1), targets.flatten()


def tried(share: float, path: Path, form: Callable[..., tuple[Any, ...]] = flat, times: int = 1) -> list[Trial]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 64), nn.ReLU(), nn.Linear(64, WORDS))
    watch = IgnoredTargets(EventFile(str(path)))
    for _ in range(7):
        for _ in range(times):
            watch.before_forward(model, (), {})
            tokens = torch.randint(WORDS, (8, 32))
            targets = torch.where(torch.rand(8, 32) < share, -1, tokens)
            given = form(model(tokens), targets)
            options = {"ignore_index": -1}
            loss = nn.functional.cross_entropy(*given, **options)  # type: ignore[arg-type]
            watch.on_loss(nn.functional.cross_entropy, given, options, loss)
            loss.backward()
        watch.on_step_end(1)
    watch.end()
    assert not any(each._forward_hooks for each in model.modules())
    return read_observations(path, [os.getpid()]).raced


@pytest.mark.parametrize("form", [flat, per_class])
@pytest.mark.parametrize("times", [1, 2])
def test_the_layer_is_tried_for_what_counts(form: Callable[..., tuple[Any, ...]], times: int, tmp_path: Path) -> None:
    (trial,) = tried(0.85, tmp_path, form, times)
    assert (trial.name, trial.error, trial.times) == ("ignored-targets", "", times)
    assert trial.about.endswith("% of the targets of Linear")
    assert 75 < int(trial.about[:2]) < 95
    assert trial.changed_s > 0
    assert trial.difference is not None
    assert trial.difference < 1e-4, "the gradient of the layer is the same"


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_where_most_targets_count_nothing_is_tried(share: float, tmp_path: Path) -> None:
    assert tried(share, tmp_path) == []


def test_under_vmap_nothing_is_looked_at(tmp_path: Path) -> None:
    watch, layer = IgnoredTargets(EventFile(str(tmp_path))), nn.Linear(8, 5)
    watch.before_forward(layer, (), {})

    def loss(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        given = layer(inputs), targets
        found = nn.functional.cross_entropy(*given)
        watch.on_loss(nn.functional.cross_entropy, given, {}, found)
        return found

    assert torch.vmap(loss)(torch.randn(3, 4, 8), torch.zeros(3, 4, dtype=torch.long)).shape == (3,)
    watch.end()
