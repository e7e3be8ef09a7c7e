"""torch.compile."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from workshop.probe.internals import forget_compiled, has_compiled
from workshop.probe.trials.copies import copied_model, forward_and_backward
from workshop.probe.trials.time_limit import time_limit
from workshop.probe.trials.trial_race import NothingToTryError, Pass

COMPILES_WITHIN_S = 60.0
"""For a longer compilation, nobody waits."""


def compiled(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """The model compiled as a whole, from an empty cache: so the first pass takes as long as on another machine."""
    if has_compiled():
        raise NothingToTryError("the script compiles already")
    as_it_is, other = copied_model(model), copied_model(model)
    yield lambda: forward_and_backward(as_it_is, inputs, options)
    try:
        with torch._inductor.utils.fresh_inductor_cache():
            yield _limited_at_first(partial(forward_and_backward, torch.compile(other), inputs, options))
    finally:
        forget_compiled()


def _limited_at_first(run: Pass) -> Pass:
    """A pass of which the first may not take too long: a Python loop in a model can be unrolled for many minutes."""
    begun = False

    def limited() -> object:
        nonlocal begun
        if begun:
            return run()
        begun = True
        with time_limit(COMPILES_WITHIN_S):
            return run()

    return limited
