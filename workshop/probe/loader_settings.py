"""The settings of a DataLoader, each declared once: its argument, its default, and what it needs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LoaderSettings:
    """How a DataLoader loads, but not what."""

    workers: int = 0
    prefetch_factor: int = 2
    """The number of batches that each worker loads ahead; it means nothing without workers."""
    persistent: bool = False
    """Whether the workers are kept from epoch to epoch."""
    pin_memory: bool = False
    start_method: str = ""
    """How workers are started: "fork", "spawn" or "forkserver"; empty for the process's own method."""
    worker_threads: int = 0
    """The number of threads of an operation in a worker; 0 for as many as the script has there."""
    threads: int = 0
    """The same in the training process."""
    whole_batches: bool = False
    """Whether each batch is taken out of tensors in memory at once, not put together from single samples."""

    @property
    def ahead(self) -> int:
        """The number of batches that are loaded ahead."""
        return self.workers * self.prefetch_factor
