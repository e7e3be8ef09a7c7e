"""Settings of a DataLoader that were tried, and what is known of them."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from workshop import noise
from workshop.probe.loader_settings import LoaderSettings


@dataclass
class TriedSetting:
    """What is known of some settings; whether workers are kept makes no difference within an epoch."""

    settings: LoaderSettings
    blocks_ms: list[float] = field(default_factory=list)
    """The milliseconds of a step within an epoch, the mean of some steps in a row each."""
    samples: float = 0.0
    """The number of samples in a step."""
    first_batch_s: float = 0.0
    """The seconds from the start of the DataLoader to its first batch."""
    memory_bytes: int | None = None
    """What all processes of the script used together; None where nothing was seen."""
    shared_bytes: int = 0
    """The most that batches on their way take of /dev/shm."""
    busy_cores: float = 0.0
    """How many cores were busy meanwhile, on average."""
    why_not: str = ""
    """Why it cannot be taken; empty if it can."""
    became: str = ""
    """What became of it in the end, in words; empty before."""

    @property
    def known(self) -> bool:
        """Whether it was measured, and can be taken."""
        return bool(self.blocks_ms) and not self.why_not

    @property
    def ms(self) -> float:
        """The mean milliseconds of a step."""
        return float(np.mean(self.blocks_ms))

    @property
    def rate(self) -> float:
        """Samples per second, within an epoch."""
        return 1e3 * self.samples / self.ms

    @property
    def rate_margin(self) -> float:
        """Half the width of the 95 % interval of the rate; not a number if it was not measured twice."""
        return self.rate * noise.margin(self.blocks_ms) / self.ms

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; rates are in samples per second."""
        margin = self.rate_margin if len(self.blocks_ms) > 1 else None
        rate = {"samples_per_s": self.rate, "samples_per_s_margin": margin} if self.blocks_ms else {}
        return {**asdict(self), **rate}
