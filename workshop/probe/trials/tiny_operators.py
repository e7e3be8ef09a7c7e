"""How long operators take, however small they are."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.settings import SMALL_OPERATORS
from workshop.probe.trials.copies import one_thread
from workshop.probe.trials.trial_race import Pass

OPERATORS_A_ROW = 5
"""The number of operators for each row of a trial that is about how long an operator takes, however small it is."""


def tiny_operators(*_: Any) -> Iterator[Pass]:
    """A small layer, in a loop over rows and for all of them at once."""
    layer = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    rows = torch.randn(SMALL_OPERATORS // OPERATORS_A_ROW, 8, 16, requires_grad=True)
    with one_thread():
        yield lambda: torch.stack([layer(rows[number]) * 0.5 for number in range(len(rows))]).sum().backward()
        yield lambda: (layer(rows) * 0.5).sum().backward()
