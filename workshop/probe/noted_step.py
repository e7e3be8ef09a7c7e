"""A training step as it is noted for the judge: what entered the model, and what the parameters were before and after.

Signatures, inputs and targets stay on their device until the epoch is over; then the step is written as an event.
"""

from dataclasses import dataclass, field, replace
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch

from workshop.probe.event_file import EventFile
from workshop.probe.events import ForwardPass, ParameterGroup, StepTaken
from workshop.probe.noted_inputs import NotedInputs, PendingItem
from workshop.probe.signature import values_of_items
from workshop.probe.spots import Spots, SpotValues, moved

MAX_PARAMETERS = 64
"""The number of values of the model's smallest parameter that are noted."""


@dataclass
class NotedPass:
    """A forward pass."""

    noted: dict[str, Any]  # the other fields of a `ForwardPass`
    inputs: NotedInputs
    targets: torch.Tensor | None = None
    item: PendingItem | None = None

    @classmethod
    def of(cls, batch: torch.Tensor) -> "NotedPass":
        """Note at once what enters a model now."""
        device = batch.device.type
        noted = {
            "t": monotonic(),
            "shape": tuple(batch.shape),
            "dtype": str(batch.dtype).removeprefix("torch."),
            "device": device,
            "autocast": torch.is_autocast_enabled(device),
        }
        return cls(noted, NotedInputs(batch))

    def fetch(self) -> ForwardPass:
        """Return the pass as an event tells it."""
        targets = None if self.targets is None else values_of_items(self.targets, self.noted["shape"][0])
        pictures, inputs = self.inputs.fetch()
        item = self.item.fetch() if self.item else None
        return ForwardPass(**self.noted, pictures=pictures, targets=targets, inputs=inputs, item=item)


@dataclass
class NotedStep:
    """A step, and the parameters before and after it; None as long as no optimizer has stepped."""

    forwards: list[NotedPass] = field(default_factory=list)
    other_inputs: list[NotedPass] = field(default_factory=list)  # see `StepTaken`
    backwards: int = 0
    without_gradients: int = 0  # items that entered any model so, or to validate
    parameter: torch.Tensor | None = None
    before: SpotValues | None = None
    after: SpotValues | None = None
    buffers_before: SpotValues | None = None  # as the first input enters the model
    buffers_after: SpotValues | None = None
    groups: tuple[ParameterGroup, ...] = ()  # of all optimizers
    retaken: int = 0  # the number of recorded steps that the loop has taken before


class StepWriter:
    """Writes steps as events, one after the other."""

    def __init__(self, events: EventFile, run_index: int) -> None:
        self.events, self._run_index = events, run_index
        self._last = NotedStep()

    def write(self, step: NotedStep, spots: Spots) -> None:
        """Write a step, unless it has not begun; what it has in common with the last one is left out."""
        if not step.forwards and step.parameter is None:
            return
        some = None if step.parameter is None else tuple(step.parameter.flatten()[:MAX_PARAMETERS].tolist())
        self.events.write(
            StepTaken,
            forwards=tuple(each.fetch() for each in step.forwards),
            other_inputs=tuple(each.fetch() for each in step.other_inputs),
            backwards=step.backwards,
            without_gradients=step.without_gradients,
            parameter=some,
            still=frozenset(spots.still(step.before, step.after)),
            touched=frozenset(moved(self._last.after, step.before)),
            touched_buffers=frozenset(moved(self._last.buffers_after, step.buffers_before)),
            groups=() if step.groups == self._last.groups else step.groups,
            run_index=self._run_index,
            retaken=step.retaken,
        )
        self._last = replace(step, forwards=[], other_inputs=[])
