"""The line that makes most of a peak, and the first one where several make about as much."""

from dataclasses import replace
from pathlib import Path

from made_memory import row, segment

from workshop.memory.memory_lines import DevicePeak, device_peaks
from workshop.memory.memory_record import MemoryRecord
from workshop.probe.memory.memory_notes import TensorRow
from workshop.probe.observations import WireFrame
from workshop.runs.staged_run import keep_sources

Made = tuple[TensorRow, tuple[WireFrame, ...]]


def made_by(line: int, mib: int, function: str = "loss", kind: str = "activations", count: int = 1) -> Made:
    return replace(row(kind, mib), count=count), (("main", "train.py", 30), (function, "train.py", line))


def largest_lines(*made: Made) -> list[int]:
    rows = [replace(each, stack=number) for number, (each, _) in enumerate(made)]
    record = MemoryRecord(stacks=[stack for _, stack in made])
    return [each.line for each in DevicePeak(record, segment(5, *rows), "cpu").largest_lines]


def test_of_lines_that_make_as_much_the_first_comes_first() -> None:
    assert largest_lines(made_by(8, 40), made_by(7, 38), made_by(6, 10)) == [7, 8]
    assert largest_lines(made_by(8, 40), made_by(7, 20), made_by(7, 18, kind="others")) == [7, 8], "all kinds together"


def test_a_line_before_it_whose_tensors_are_as_large() -> None:
    """Such as logits of which a loss keeps the logarithms and the gradient."""
    assert largest_lines(made_by(8, 40, count=2), made_by(7, 20)) == [7, 8]
    assert largest_lines(made_by(8, 40), made_by(7, 20)) == [8], "they are smaller"
    assert largest_lines(made_by(8, 40, count=2), made_by(9, 20)) == [8], "they come after it"


def test_a_line_that_calls_what_makes_as_much() -> None:
    def called(line: int) -> Made:
        made, stack = made_by(line, 38, "predict")
        return made, (("loss", "train.py", 7), *stack[1:])

    assert largest_lines(made_by(8, 40), called(3)) == [7, 8]
    assert largest_lines(made_by(8, 40), called(3), called(4)) == [8], "all that it calls makes far more"


def test_a_validation_of_which_the_allocator_was_not_asked() -> None:
    """As it has too many operators; of two steps in a row, the second one is never asked."""
    asked = replace(segment(2), devices=(replace(segment(2).devices[0], allocator_bytes=1),))
    steps, validation = [asked, segment(3, peak=110)], segment(9, peak=230, name="validation")
    for segments, highest in ((steps, asked), ([*steps, validation], validation)):
        assert [each.segment for each in device_peaks(MemoryRecord(segments=segments))] == [highest]


def test_other_functions_and_the_training_itself_do_not_count() -> None:
    assert largest_lines(made_by(8, 40), made_by(3, 40, "forward")) in ([8], [3])
    assert largest_lines(made_by(8, 4), made_by(3, 40, kind="parameters")) == [8]
    assert largest_lines() == []


def test_lines_are_quoted_as_they_ran_although_they_are_edited_meanwhile(tmp_path: Path) -> None:
    script, layers = tmp_path / "train.py", tmp_path / "layers.py"
    script.write_text("import layers\nx = before()\n")
    layers.write_text("import torch\nx = before()\n")
    keep_sources(str(script), "--epochs", "3")
    for each in (script, layers):
        each.write_text("import torch\n\nx = after()\n")
    stacks = [(("main", str(each), 2),) for each in (script, layers)]
    rows = [replace(row("activations", 9), stack=number) for number in range(2)]
    peak = DevicePeak(MemoryRecord(stacks=stacks), segment(5, *rows), "cpu")
    assert [each.text for each in peak.lines] == ["x = before()"] * 2
