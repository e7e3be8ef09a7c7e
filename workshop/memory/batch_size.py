"""The largest batch that fits: what each sample adds to the peak, and what is free."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from workshop.memory.memory_lines import memory_of
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import FIRST_STEPS, MemorySegment, TensorKind

OF_BATCH = (TensorKind.BATCHES, TensorKind.ACTIVATIONS, TensorKind.BACKWARD, TensorKind.OTHERS, TensorKind.SCRATCH)
"""The kinds of which a step makes more for a larger batch, if they are of the step itself."""

ERROR = 0.15
"""Share by which what follows from a single size of batch may be wrong: some tensors do not grow with the batch."""

HEADROOM = 0.05
"""Share of what is free that is left: allocators do not fill it to the last byte."""

MIN_RATIO = 1.2
"""Times that the largest batch has the samples of the smallest, at least, to show what a sample takes."""

MAX_TIMES = 2000
"""Times that a batch could be larger, at most: beyond that it limits nothing."""


@dataclass(frozen=True)
class LargestBatch:
    """How many samples a batch may have on a device."""

    device: str
    now: int
    """The samples of a batch as it is."""
    samples: float
    low: float
    high: float
    bytes_a_sample: float
    free_bytes: float
    basis: str


def largest_batch(measured: MeasuredMemory) -> LargestBatch | None:
    """Return the largest batch on the device that trains; None if the size of a batch is not known."""
    steps = [
        each for each in measured.record.training if each.samples and not each.is_last and each.step >= FIRST_STEPS
    ]
    device = _device_of_model(steps)
    having = [each for each in steps if any(of.device == device for of in each.devices)]
    if device is None or not having:
        return None
    largest = max(having, key=lambda each: each.samples)
    free = _free(measured, largest, device)
    if free is None:
        return None
    a_sample, error, basis = _bytes_a_sample(having, largest, device)
    if a_sample <= 0 or a_sample * largest.samples * MAX_TIMES < free:
        return None
    more = free * (1 - HEADROOM) / a_sample
    return LargestBatch(
        device=device,
        now=largest.samples,
        samples=largest.samples + more,
        low=largest.samples + more * (1 - error),
        high=largest.samples + more / (1 - error),
        bytes_a_sample=a_sample,
        free_bytes=free,
        basis=basis,
    )


def _device_of_model(steps: list[MemorySegment]) -> str | None:
    sizes = Counter[str]()
    for each in (row for step in steps for row in step.at_peak if row.kind == TensorKind.PARAMETERS):
        sizes[each.device] += each.bytes
    return max(sizes, key=lambda each: sizes[each], default=None)


def _free(measured: MeasuredMemory, step: MemorySegment, device: str) -> float | None:
    """What is free at the peak; on a GPU, it was noted at the end of the step."""
    if device == "cpu":
        return float(min((each.free_bytes for each in measured.host.looks), default=0)) or None
    memory = memory_of(step, device)
    if not memory.free_bytes:
        return None
    return float(max(memory.free_bytes - (memory.peak_bytes - memory.end_bytes), 0))


def _bytes_a_sample(steps: list[MemorySegment], largest: MemorySegment, device: str) -> tuple[float, float, str]:
    """What a sample adds to the peak, the error of it as a share, and how that is known."""
    sizes = np.array([float(each.samples) for each in steps])
    peaks = np.array([float(memory_of(each, device).peak_bytes) for each in steps])
    if sizes.max() >= MIN_RATIO * sizes.min():
        slope = float(np.polyfit(sizes, peaks, 1)[0])
        left = peaks - np.polyval(np.polyfit(sizes, peaks, 1), sizes)
        error = float(left.std() / max(np.ptp(peaks), 1.0))
        return slope, min(max(error, 0.02), 0.5), "from batches of several sizes"
    own = sum(
        each.bytes
        for each in largest.at_peak
        if each.device == device and each.kind in OF_BATCH and each.first_step >= largest.step
    )
    return own / largest.samples, ERROR, "from batches of one size"
