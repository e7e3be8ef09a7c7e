"""torch.compile."""

from collections.abc import Iterator
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import PASSES, CausePlace, TriedCause
from workshop.probe.internals import forget_compiled, has_compiled, traced_with
from workshop.probe.trials.copies import copied_model, forward_and_backward
from workshop.probe.trials.trial_race import NothingToTryError, Pass, TooLongError
from workshop.probe.trials.watcher import of_model

LONGEST_S = 60.0
"""Seconds that a compilation may take, at most."""


@of_model(
    TriedCause(
        "torch-compile",
        "The model ({about}) is faster with torch.compile(model).",
        CausePlace.OPTION,
        # On two cores, so many seconds, and more for each operation of a backward pass, until it is given up.
        seconds=lambda pass_s, look: PASSES * pass_s + min(12.0 + 0.2 * look.operations, LONGEST_S),
    )
)
def compiled(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """The model compiled as a whole, from an empty cache: so the first pass takes as long as on another machine."""
    if has_compiled():
        raise NothingToTryError("the script compiles already")
    as_it_is, other, limit = copied_model(model), copied_model(model), _Limit()
    yield lambda: forward_and_backward(as_it_is, inputs, options)
    try:
        with torch._inductor.utils.fresh_inductor_cache(), traced_with(limit.check):
            made = torch.compile(other, backend=limit.generate)
            yield lambda: limit.keep(lambda: forward_and_backward(made, inputs, options))
    finally:
        forget_compiled()


class _Limit:
    """Ends a compilation that takes too long: a Python loop in a model may be traced for many minutes."""

    def __init__(self) -> None:
        self.ends_s: float | None = None
        self.is_over = False

    def check(self, to_come_s: float = 0.0) -> None:
        """Raise an exception if it has taken too long, or will; the first call begins."""
        now = monotonic()
        self.ends_s = self.ends_s or now + LONGEST_S
        self.is_over = self.is_over or now + to_come_s > self.ends_s
        if self.is_over:
            raise TooLongError

    def generate(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        """Make code of what was traced, as torch.compile does by itself: 0.05 seconds an operation, at least."""
        self.check(0.05 * sum(node.op.startswith("call_") for node in graph.graph.nodes))
        return torch._dynamo.lookup_backend("inductor")(graph, inputs)

    def keep(self, run: Pass) -> object:
        """Run a pass; for an exception that ends it, the compiler has its own, or goes on without compiling."""
        try:
            return run()
        finally:
            if self.is_over:
                raise TooLongError
