"""The largest batch follows from figures, and has an error."""

from dataclasses import replace

import pytest
from made_memory import MIB, look, made_memory

from workshop.memory.batch_size import ERROR, HEADROOM, largest_batch
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import MemorySegment, TensorRow, TensorsOfDevice


def step(number: int, samples: int, peak_mib: int, device: str = "cpu", free_mib: int = 0) -> MemorySegment:
    """A step with 10 MiB of parameters, whose activations have most of the rest."""
    of = TensorsOfDevice(device, peak_mib * MIB, 10 * MIB, None, 0, (), free_mib * MIB)
    parameters = TensorRow(device, "parameters", -1, "float32", 10 * MIB, 4, -1, 0, 0, 0)
    activations = TensorRow(device, "activations", -1, "float32", samples * MIB, 4, number, 0, 0, 0)
    return MemorySegment(0.0, 1, 1, "training", number, (of,), (parameters, activations), (), (), samples=samples)


def measured(*steps: MemorySegment, free_mib: int = 950) -> MeasuredMemory:
    return made_memory(replace(look(0.0, p7=0), free_bytes=free_mib * MIB), segments=list(steps))


def test_batches_of_one_size() -> None:
    """A sample takes the MiB that the activations of the step are, divided by the samples."""
    found = largest_batch(measured(step(2, 32, 50)))
    assert found is not None
    assert (found.device, found.now, found.bytes_a_sample) == ("cpu", 32, MIB)
    more = 950 * (1 - HEADROOM)
    assert found.samples == pytest.approx(32 + more)
    assert (found.low, found.high) == (pytest.approx(32 + more * (1 - ERROR)), pytest.approx(32 + more / (1 - ERROR)))


def test_batches_of_several_sizes_say_more_exactly_what_a_sample_takes() -> None:
    found = largest_batch(measured(step(2, 10, 40), step(3, 20, 60), step(4, 40, 100)))
    assert found is not None
    assert found.basis == "from batches of several sizes"
    assert found.bytes_a_sample == pytest.approx(2 * MIB)
    more = 950 * (1 - HEADROOM) / 2
    assert found.low == pytest.approx(40 + 0.98 * more)


def test_without_samples_or_room_that_matters_nothing_is_said() -> None:
    assert largest_batch(measured(step(2, 0, 50))) is None
    assert largest_batch(measured(step(1, 32, 50))) is None, "the first steps are like no others"
    assert largest_batch(measured(step(2, 32, 50), free_mib=10_000_000)) is None


def test_what_is_free_on_the_device_of_the_model_counts() -> None:
    """Another device has a few tensors, and nearly nothing is free there."""
    other = TensorsOfDevice("cuda:0", MIB, MIB, None, 0, (), MIB)
    one = step(2, 32, 50, "cuda:1", free_mib=240)
    found = largest_batch(measured(MemorySegment(**vars(one) | {"devices": (other, *one.devices)})))
    assert found is not None
    assert (found.device, found.free_bytes) == ("cuda:1", 200 * MIB)
