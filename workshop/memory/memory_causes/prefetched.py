"""Batches that workers load ahead: more of them than by torch's default."""

from collections.abc import Iterator

from workshop.memory.host_table import prefetched_bytes
from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_lines import UNKNOWN
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.user_code import is_user_code

PREFETCHED_TOO_FAR = MemoryCause(
    "prefetched-too-far",
    "{workers} workers load {factor} batches ahead each; torch's default is {default}. `workshop tune` measures "
    "whether fewer are as fast.",
    estimated="estimated: {fewer} batches fewer, times their size",
)


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what the workers of the training's DataLoader load ahead beyond the default."""
    record, loader = measured.record, measured.record.loader
    if not measured.host.looks or not record.workers or loader is None or not loader.settings.workers:
        return
    settings = loader.settings
    default = type(settings)(settings.workers).ahead
    if (fewer := settings.ahead - default) <= 0:
        return
    frames = [each for each in record.loader_site if is_user_code(each[1])]
    size, at = round(prefetched_bytes(measured) * fewer / settings.ahead), frames[-1] if frames else UNKNOWN
    a_worker = {"factor": settings.ahead // settings.workers, "default": default // settings.workers}
    about = {"workers": settings.workers, "fewer": fewer, **a_worker}
    yield MemoryFinding(
        PREFETCHED_TOO_FAR, "host", size, measured.host.most_bytes, at, measured=False, process="worker", figures=about
    )
