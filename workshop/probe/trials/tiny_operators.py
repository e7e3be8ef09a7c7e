"""How long operators take, however small they are."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import Moment, TriedCause
from workshop.probe.settings import SMALL_OPERATORS
from workshop.probe.trials.copies import one_thread
from workshop.probe.trials.trial_race import Pass
from workshop.probe.trials.watcher import of_model


@of_model(TriedCause("tiny-operators", phases=(), moment=Moment.CLOSER_LOOK))
def tiny_operators(*_: Any) -> Iterator[Pass]:
    """A small layer, in a loop over rows and for all of them at once; for each row there are five operators."""
    layer = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    rows = torch.randn(SMALL_OPERATORS // 5, 8, 16, requires_grad=True)
    with one_thread():
        yield lambda: torch.stack([layer(rows[number]) * 0.5 for number in range(len(rows))]).sum().backward()
        yield lambda: (layer(rows) * 0.5).sum().backward()
