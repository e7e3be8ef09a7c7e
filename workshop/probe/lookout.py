"""Counts what a process does with torch, for whoever waits for its first step."""

import os
import time
from dataclasses import replace
from typing import Any

from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.hooks import TrainingHooks
from workshop.probe.listener import Listener
from workshop.probe.observations import Sighting
from workshop.probe.sightings import note, script_name

NOTED_EVERY_S = 1.0

_monotonic = time.monotonic  # the script may replace it


class Lookout(Listener):
    """Keeps a `Sighting` of this process in a file, which is seldom more than a second behind.

    Args:
        folder: the folder of the file.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._begin()

    def install(self) -> None:
        """Watch this process, where nothing else does."""
        TrainingHooks(self).install()

    def goes_on_in_fork(self) -> bool:
        """Begin anew: what was seen before was seen in the other process."""
        self._begin()
        return True

    def on_batch(self, batch: Any) -> None:
        """Count a batch."""
        self._count("batches")

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """Count a forward pass."""
        self._count("forwards")

    def after_backward(self) -> None:
        """Count a backward pass."""
        self._count("backwards")

    def after_optimizer(self, optimizer: Optimizer) -> None:
        """Count an optimizer's step."""
        self._count("optimizer_steps")

    def on_fault(self, fault: str) -> None:
        """Note why nothing more will be seen."""
        note(replace(self._seen, fault=fault), self.folder)

    def _begin(self) -> None:
        self._seen = Sighting(os.getpid(), script_name())
        self._note()

    def _note(self) -> None:
        self._noted_s = _monotonic()
        note(self._seen, self.folder)

    def _count(self, what: str) -> None:
        count = getattr(self._seen, what) + 1
        self._seen = replace(self._seen, **{what: count})
        is_power_of_two = not count & (count - 1)
        if is_power_of_two or _monotonic() - self._noted_s > NOTED_EVERY_S:
            self._note()
