"""Where settings of a DataLoader stand in a search: what a step takes with them, and what they cost."""

from dataclasses import dataclass, replace

import numpy as np

from workshop.probe.loader_settings import LoaderSettings


@dataclass(frozen=True)
class Standing:
    """Settings that can be taken, and what a step takes with them, the start of workers for each epoch included."""

    settings: LoaderSettings
    blocks_ms: tuple[float, ...]

    @property
    def ms(self) -> float:
        """The mean milliseconds of a step."""
        return float(np.mean(self.blocks_ms))

    @property
    def order(self) -> tuple[int, int, bool, bool, bool, str]:
        """Orders settings by what they cost."""
        each = self.settings
        return each.workers, each.prefetch_factor, each.pin_memory, each.threads > 0, each.persistent, each.start_method

    def slowed(self, factor: float) -> "Standing":
        """Return what it would be if each step took longer by a factor."""
        return replace(self, blocks_ms=tuple(factor * each for each in self.blocks_ms))
