"""Watches how much of a model's inputs is padding in every sample of a batch, and tries the model without that.

Where a batch is padded to a fixed length, all of its tensors have the same value from some place on. That place is
another one in each batch; a border that all pictures have is none.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median_high
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import Extent, Moment, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.internals import frame_above, tree_leaves, tree_map
from workshop.probe.stack_sampler import user_stack_here
from workshop.probe.trials.copies import copied_call, forward_and_backward
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import ENOUGH, MIN_WASTED, Watcher, watches_for
from workshop.probe.user_names import name_in

MIN_LENGTH = 16
"""Positions of an input, at least, in which padding is looked for."""

PADDED_BATCHES = TriedCause(
    "padded-batches",
    "{about} are padding in every sample of a batch: where batches are put together, pad each one to its own "
    "longest sample. Where neither the model nor the loss masks padding, as in a mean over all positions, the "
    "results change: compare the loss of a batch with and without.",
    moment=Moment.WATCHING,
    extent=Extent.PASSES_OR_ALL,
    is_of_collate=True,
)


@watches_for(PADDED_BATCHES)
class PaddedInputs(Watcher):
    """Watches the calls of models."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._seen: dict[nn.Module, list[Mapping[int, int]]] = defaultdict(list)
        self._of_steps = Counter[nn.Module]()  # the calls in steps that are over

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note the padding of a call, and try the model without it once it is known."""
        if not torch.is_grad_enabled() or module in self.tried:
            return
        seen = self._seen[module]
        try:
            seen.append(padding_in((inputs, options)))
        except RuntimeError:  # values of sparse tensors, or under vmap, cannot be looked at
            return
        if self._of_steps[module] < ENOUGH:
            return
        length, to = usual_lengths(seen)
        if length - to < MIN_WASTED * max(length, 1):
            return
        self.tried.add(module)
        about = f"About {length - to} of {length} positions in the inputs of {name_in(frame_above(0), module)}"
        times = self._of_steps[module] / self.steps

        def passes() -> Iterator[Pass]:
            copied, given, named = copied_call(module, inputs, options)
            less, less_named = tree_map(lambda leaf: shortened(leaf, length, to), (given, named))
            try:
                forward_and_backward(copied, less, less_named)
            except Exception as error:  # a fixed length may be needed, as by a layer over all of it
                raise NothingToTryError("it takes inputs of one length only") from error
            yield lambda: forward_and_backward(copied, given, named)
            yield lambda: forward_and_backward(copied, less, less_named)

        self.race(PADDED_BATCHES, passes, about=about, stack=user_stack_here(), times=times)

    def on_step_end(self, steps: int) -> None:
        """Begin with the next step."""
        super().on_step_end(steps)
        self._of_steps = Counter({module: len(seen) for module, seen in self._seen.items()})


def padding_in(arguments: Any) -> dict[int, int]:
    """Return how many positions at the end are padding in all samples, by the length of the tensors that have them.

    A tensor that is the same everywhere, such as a mask of ones, tells nothing; those that differ in how much of them
    is padding have as much as the one with the least.
    """
    found: dict[int, int] = {}
    for leaf in tree_leaves(arguments):
        if not isinstance(leaf, torch.Tensor) or leaf.ndim < 2 or not leaf.numel():
            continue
        differs = leaf.detach() != leaf.detach().flatten()[-1]
        for dimension, length in enumerate(leaf.shape):
            if length < MIN_LENGTH:
                continue
            others = [each for each in range(leaf.ndim) if each != dimension]
            places = differs.amax(others).nonzero()
            if len(places):
                padded = length - 1 - int(places[-1])
                found[length] = min(padded, found.get(length, length))
    return found


def usual_lengths(calls: Sequence[Mapping[int, int]]) -> tuple[int, int]:
    """Return the length of which the largest share is padding in most calls, with that and without; 0 if there is none.

    Args:
        calls: what `padding_in` has found in each of them. Where all have found the same, it is no padding.
    """
    always = set.intersection(*map(set, calls))
    varies = [length for length in always if len({of_call[length] for of_call in calls}) > 1]
    without = {length: length - median_high(of_call[length] for of_call in calls) for length in varies}
    length = min(without, key=lambda each: without[each] / each, default=0)
    return length, without.get(length, 0)


def shortened(leaf: Any, length: int, to: int) -> Any:
    """Return a tensor without what is beyond a place, in all dimensions of some length; anything else as it is."""
    if isinstance(leaf, torch.Tensor):
        for dimension, size in enumerate(leaf.shape):
            leaf = leaf.narrow(dimension, 0, to).contiguous() if size == length else leaf
    return leaf
