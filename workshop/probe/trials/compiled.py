"""torch.compile."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.internals import forget_compiled, has_compiled
from workshop.probe.trials.copies import copied_model, forward_and_backward
from workshop.probe.trials.trial_race import NothingToTryError, Pass


def compiled(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """The model compiled as a whole, from an empty cache: so the first pass takes as long as on another machine."""
    if has_compiled():
        raise NothingToTryError("the script compiles already")
    as_it_is, other = copied_model(model), copied_model(model)
    yield lambda: forward_and_backward(as_it_is, inputs, options)
    try:
        with torch._inductor.utils.fresh_inductor_cache():
            made = torch.compile(other)
            yield lambda: forward_and_backward(made, inputs, options)
    finally:
        forget_compiled()
