"""What a GPU's allocator keeps without use, and how often it gives memory back, from the counts that torch keeps."""

import os
from pathlib import Path

import pytest

from workshop.diagnosis.samples import read_observations
from workshop.probe.allocator_use import allocator_use, from_stats, said_of
from workshop.probe.event_file import EventFile
from workshop.probe.messages import AsItIs, KeepBatches
from workshop.probe.observations import AllocatorUse
from workshop.probe.trials import allocator

GIB = 2**30

STATS = {
    "reserved_bytes.all.current": 12 * GIB,
    "reserved_bytes.all.peak": 13 * GIB,
    "allocated_bytes.all.current": 3 * GIB,
    "allocated_bytes.all.peak": 7 * GIB,
    "num_alloc_retries": 2,
    "num_device_alloc": 60,
    "num_device_free": 48,
}


def test_what_torch_counts() -> None:
    assert from_stats(STATS) == AllocatorUse(12 * GIB, 7 * GIB, returned=48, retries=2)
    assert from_stats({}) == AllocatorUse(0, 0, 0, 0), "of another allocator"
    assert allocator_use("cpu") is None


@pytest.mark.parametrize(
    ("use", "steps", "says"),
    [
        (AllocatorUse(7 * GIB, 7 * GIB, 0, 0), 16, ""),
        (AllocatorUse(7 * GIB, 7 * GIB, 3, 0), 4, ""),  # as at a start
        (AllocatorUse(7 * GIB, 7 * GIB, 7, 0), 16, ""),  # as now and then
        (AllocatorUse(2**29, 2**20, 0, 0), 16, ""),  # what is kept is little
        (AllocatorUse(10 * GIB, 7 * GIB, 0, 0), 16, ""),
        (AllocatorUse(7 * GIB, 7 * GIB, 48, 0), 16, "gave memory back to the GPU 48 times in 16 steps"),
        (
            AllocatorUse(7 * GIB, 7 * GIB, 0, 2),
            0,
            "found too little left 2 times in all, and gave back all that it could",
        ),
        (
            AllocatorUse(12 * GIB, 7 * GIB, 0, 0),
            16,
            "has 12.0 GiB reserved, of which at most 7.0 GiB were allocated at a time",
        ),
    ],
)
def test_what_is_said(use: AllocatorUse, steps: int, says: str) -> None:
    assert said_of(use, steps) == says


def test_the_measured_steps_alone_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([None, from_stats(STATS), from_stats(STATS | {"num_device_free": 60, "num_alloc_retries": 2})])
    watcher = allocator.AllocatorCounts(EventFile(str(tmp_path)))
    monkeypatch.setattr(allocator, "allocator_use", lambda: next(counts))
    watcher.on_stage(KeepBatches())
    watcher.on_stage(AsItIs())
    for _ in range(12):
        watcher.on_step_end(1)
    watcher.on_stage(KeepBatches())
    assert read_observations(tmp_path, [os.getpid()]).noticed["allocator"].about == (
        "gave memory back to the GPU 12 times in 12 steps; it has 12.0 GiB reserved, of which at most 7.0 GiB were "
        "allocated at a time"
    )


def test_nothing_is_noted_on_a_cpu(tmp_path: Path) -> None:
    watcher = allocator.AllocatorCounts(EventFile(str(tmp_path)))
    for stage in (AsItIs(), KeepBatches()):
        watcher.on_stage(stage)
    assert not read_observations(tmp_path, [os.getpid()]).noticed
