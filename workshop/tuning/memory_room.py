"""What there is room for: the memory of all processes, and what batches on their way take of /dev/shm."""

from dataclasses import dataclass, replace

from workshop.probe.loader_settings import LoaderSettings
from workshop.tuning.tried_setting import TriedSetting

GIGABYTE = 1e9

RESERVE = 0.1
"""This share of the free memory is left alone: a script may need more later."""

IN_HAND = 2
"""Batches that the training holds on to, beside those that are loaded ahead."""

FORKED = 0.3
"""Before any worker was seen, a forked one is taken to write to this share of its parent's memory."""


@dataclass(frozen=True)
class Room:
    """The limits, and what is known of the needs."""

    limit_bytes: float
    """What all processes of the script may use together."""
    used_bytes: float = 0.0
    """What they used when workers were last looked at, and with how many workers."""
    workers: int = 0
    worker_bytes: float = 0.0
    """What each further worker takes."""
    batch_bytes: float = 0.0
    shared_free_bytes: int | None = None
    """What is free of /dev/shm; None where there is none."""
    ranks: int = 1
    """Each of them has so many workers."""

    def after(self, tried: TriedSetting, private_bytes: int) -> "Room":
        """Return what is known after settings were tried, whose largest worker had so many bytes of its own."""
        if tried.memory_bytes is None or not tried.settings.workers:
            return self
        worker_bytes = max(self.worker_bytes if self.workers else 0.0, private_bytes)
        return replace(self, used_bytes=tried.memory_bytes, workers=tried.settings.workers, worker_bytes=worker_bytes)

    def memory(self, settings: LoaderSettings) -> float:
        """Return the bytes that all processes will use."""
        batches = (settings.ahead - self.workers * LoaderSettings.prefetch_factor) * self.batch_bytes
        workers = (settings.workers - self.workers) * self.worker_bytes
        return self.used_bytes + self.ranks * (workers + max(0.0, batches))

    def shared(self, settings: LoaderSettings) -> int:
        """Return the bytes that batches on their way take of /dev/shm at most."""
        return round(self.ranks * self.batch_bytes * (settings.ahead + IN_HAND)) if settings.workers else 0

    def why_not(self, settings: LoaderSettings) -> str:
        """Return why settings would not fit; empty if they do."""
        needed = self.shared(settings)
        if self.shared_free_bytes is not None and needed > (1 - RESERVE) * self.shared_free_bytes:
            return f"needs {size(needed)} of /dev/shm, which has {size(self.shared_free_bytes)}"
        if settings.workers and self.memory(settings) > self.limit_bytes:
            return f"would need {size(self.memory(settings))} of memory, and {size(self.limit_bytes)} are allowed"
        return ""


def size(count: float) -> str:
    """Return a number of bytes as a person reads it."""
    if count >= GIGABYTE:
        return f"{count / GIGABYTE:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e7 or not count else f"{count / 1e6:.1f} MB"
