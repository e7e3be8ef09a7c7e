"""Records of the memory of a made-up training, which runs in process 7."""

from typing import Any

from workshop.memory.host_watch import HostLook, HostWatch, ProcessMemory
from workshop.memory.memory_record import MemoryRecord
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import MemorySegment, TensorRow, TensorsOfDevice
from workshop.probe.messages import AsItIs, BatchCounts, Circumstances, StepReport
from workshop.probe.phases import Phase

MIB = 1 << 20
TRAINER = 7
STACK = (("main", "train.py", 12),)


def row(kind: str, mib: float, dtype: str = "float32", **fields: Any) -> TensorRow:
    """Tensors that were allocated in line 12."""
    return TensorRow("cpu", kind, 0, dtype, int(mib * MIB), 1, 0, *fields.pop("older", (0, 0, 0)), **fields)


def segment(step: int, *rows: TensorRow, peak: int = 100, name: str = "training", **fields: Any) -> MemorySegment:
    """A recorded step with the same tensors at its peak, of so many MiB, and in the end."""
    of = TensorsOfDevice("cpu", peak * MIB, 0, None, 0, ())
    return MemorySegment(0.0, TRAINER, 1, name, step, (of,), rows, rows, (), **fields)


def report(ended_s: float, steps: int = 10) -> StepReport:
    """Steps that ended at some time."""
    return StepReport(
        AsItIs(), (1000,) * steps, ended_s, dict.fromkeys(Phase, 0.0), 80, BatchCounts(), Circumstances(), TRAINER
    )


def look(time_s: float, **private_mib: int) -> HostLook:
    """What processes such as `p8` have by themselves."""
    sizes = {int(name[1:]): size * MIB for name, size in private_mib.items()}
    return HostLook(time_s, {pid: ProcessMemory(*[size] * 4, 0) for pid, size in sizes.items()}, 0, 1 << 33)


def made_memory(*looks: HostLook, reports: tuple[StepReport, ...] = (), **of_record: Any) -> MeasuredMemory:
    """A measurement whose record has such fields."""
    record = MemoryRecord(**{"stacks": [STACK], **of_record})
    return MeasuredMemory(record, HostWatch(list(looks)), [*reports], None, [TRAINER])
