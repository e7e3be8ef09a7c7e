"""How many steps an epoch of a judged training has, where the judge does not say it."""

import math
from time import monotonic  # the script may replace that of the module

from torch.utils.data import DataLoader

from workshop.probe.settings import MAX_EPOCH_STEPS

MAX_EPOCH_S = 20.0
MIN_STEPS = 3
"""An epoch ends after this many seconds from its first step, if no other time is asked for, but not before this many
steps."""


class EpochLength:
    """Finds the length of the run's first epoch, which all later ones have, too.

    Args:
        steps: the number of steps, if the judge gives it.
        max_s: the longest time of the first epoch in seconds; None for the usual one, and for no cut within an epoch of
            a short DataLoader.

    Attributes:
        steps: the number of steps; None as long as it is not known.
    """

    def __init__(self, steps: int | None, max_s: float | None) -> None:
        self.steps, self._max_s = steps, max_s
        self._began_s = 0.0  # the end of the first step: how long it took to start workers, or to compile, says little
        self._batches: int | None = None  # of the DataLoader that began last
        self._loaders_begun = self._batches_taken = 0  # since the run began

    def loader_began(self, loader: DataLoader[object]) -> None:
        """A DataLoader begins an epoch of the training."""
        try:
            self._batches = len(loader)
        except TypeError:  # of an iterable dataset
            self._batches = None
        self._loaders_begun += 1

    def batch_taken(self) -> None:
        """A DataLoader has handed out a batch to the training."""
        self._batches_taken += 1

    def step_ended(self, steps: int) -> None:
        """A step of the first epoch is over, in which there were so many; perhaps the epoch is, too."""
        if steps == 1:
            self._began_s = monotonic()
        if self.steps is None and self._is_enough(steps):
            self.steps = steps

    def _is_enough(self, steps: int) -> bool:
        """Whether the first epoch is over: as the DataLoader of its first step says, or part of a long one.

        Once half of a short DataLoader has gone by, the other half is waited for: the last batch may be a special one.
        """
        is_long = monotonic() - self._began_s > (self._max_s or MAX_EPOCH_S)
        if self._batches and self._batches <= MAX_EPOCH_STEPS:
            cut = is_long and self._max_s and MIN_STEPS <= steps < self._batches / 2
            return bool(cut) or steps == self._batches
        return steps >= (MIN_STEPS if is_long else MAX_EPOCH_STEPS)

    def whole_steps(self, steps: int) -> int | None:
        """Return how many steps the DataLoader's epoch would have had, if the run's first epoch ends before it does."""
        if self._loaders_begun != 1 or not self._batches or not 0 < self._batches_taken < self._batches:
            return None
        return math.ceil(self._batches * steps / self._batches_taken)
