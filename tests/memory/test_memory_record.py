"""What the processes of one rank have noted is read together."""

from pathlib import Path

from workshop.memory.memory_record import read_memory
from workshop.probe import wire
from workshop.probe.memory.memory_notes import LowerPeak, MemorySegment, TensorRow


def test_each_process_numbers_its_stacks_by_itself(tmp_path: Path) -> None:
    """A training that was started again: both have a stack 0, in different lines."""
    for pid, line in ((7, 12), (8, 30)):
        row = TensorRow("cpu", "others", 0, "float32", 8, 1, 2, 0, 0, 0)
        unknown = TensorRow("cpu", "others", -1, "float32", 8, 1, 2, 0, 0, 0)
        stacks = ((("main", "train.py", line),), (("main", "train.py", line + 1),))
        freed = (LowerPeak("validation-graph", "cpu", 8, 1),)
        segment = MemorySegment(0.0, pid, 1, "training", 2, (), (row,), (row, unknown), stacks, freed=freed)
        (tmp_path / f"{pid}.jsonl").write_bytes(wire.encode(segment).encode() + b"\n")
    record = read_memory(tmp_path, [7, 8])
    lines = {
        each.pid: ([record.stack_of(row) for row in each.at_end], record.stacks[each.freed[0].stack])
        for each in record.segments
    }
    assert lines == {
        7: ([(("main", "train.py", 12),), ()], (("main", "train.py", 13),)),
        8: ([(("main", "train.py", 30),), ()], (("main", "train.py", 31),)),
    }
