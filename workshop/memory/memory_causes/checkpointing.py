"""Checkpoints around the blocks of the model, as tried on a copy of it."""

from collections.abc import Iterator

from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_lines import devices_of, has_device, memory_of
from workshop.memory.memory_run import MeasuredMemory

CHECKPOINTING = MemoryCause(
    "checkpointing",
    "Tried on a copy of {about}: with torch.utils.checkpoint around each of its blocks, activations are computed again "
    "instead of kept. A forward and backward pass then took {slower:.2f} times as long. A batch norm in a block counts "
    "each batch twice.",
    "measured: the peak of a forward and backward pass of a copy, before and after",
    is_option=True,
)


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what was tried, if it needed less."""
    record, trial = measured.record, measured.record.trials.get(CHECKPOINTING.name)
    if not trial or trial.error or not trial.applies or trial.device not in devices_of(record):
        return
    if trial.changed_bytes < trial.as_it_is_bytes:
        steps = [each for each in record.training if has_device(each, trial.device)]
        peak = max((memory_of(each, trial.device).peak_bytes for each in steps), default=0)
        about = {"about": trial.about, "slower": trial.changed_s / max(trial.as_it_is_s, 1e-9)}
        size = trial.as_it_is_bytes - trial.changed_bytes
        yield MemoryFinding(CHECKPOINTING, trial.device, size, peak, figures=about)
