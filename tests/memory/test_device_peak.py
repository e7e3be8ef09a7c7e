"""The line that makes most of a peak, and the first one where several make about as much."""

from made_memory import MIB

from workshop.memory.device_peak import DevicePeak
from workshop.memory.memory_lines import LineMemory
from workshop.probe.memory.memory_notes import MemorySegment, TensorsOfDevice


def made_by(line: int, mib: int, function: str = "loss", kind: str = "activations") -> LineMemory:
    return LineMemory("cpu", kind, "train.py", line, function, "", ("float32",), mib * MIB, 1, "this step", "", "")


def largest_lines(*lines: LineMemory) -> list[int]:
    of = TensorsOfDevice("cpu", 100 * MIB, 0, None, 0, ())
    segment = MemorySegment(0.0, 1, 1, "training", 5, (of,), (), (), ())
    return [each.line for each in DevicePeak("cpu", segment, of, list(lines)).largest_lines]


def test_of_lines_that_make_as_much_the_first_comes_first() -> None:
    assert largest_lines(made_by(8, 40), made_by(7, 38), made_by(6, 10)) == [7, 8]
    assert largest_lines(made_by(8, 40), made_by(7, 20), made_by(7, 18, kind="others")) == [7, 8], "all kinds together"


def test_other_functions_and_the_training_itself_do_not_count() -> None:
    assert largest_lines(made_by(8, 40), made_by(3, 40, "forward")) in ([8], [3])
    assert largest_lines(made_by(8, 4), made_by(3, 40, kind="parameters")) == [8]
    assert largest_lines() == []
