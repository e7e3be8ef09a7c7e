"""What grows is told from what stays, and from what an epoch's end clears."""

from dataclasses import replace

import pytest
from made_memory import look, report

from workshop.memory.growth import growing_lines, process_growth
from workshop.memory.host_watch import HostLook
from workshop.memory.memory_record import MemoryRecord
from workshop.probe.memory.memory_notes import MemorySegment, TensorRow, TensorsOfDevice
from workshop.probe.messages import StepReport

STACK = (("main", "train.py", 12),)
ROW = TensorRow("cpu", "others", 0, "float32", 0, 0, 2, 0, 0, 0)
CPU = TensorsOfDevice("cpu", 100_000, 50_000, 40_000, 40_000, ())


def segment(step: int, kept: int, recorded: int, epoch: int = 0, is_last: bool = False) -> MemorySegment:
    row = replace(ROW, bytes=1000 * kept, count=kept, older_bytes=1000 * kept, older_seen_bytes=1000 * kept)
    row = replace(
        row, older_steps=kept, holder="losses[...]" if is_last else "", holder_stack=(("main", "train.py", 9),)
    )
    row = replace(row, holder_steps=min(kept, 3) if is_last else 0)
    stacks = (STACK,) if step == 3 else ()
    rows = (row,) if kept else ()
    return MemorySegment(0.0, 1, 1, "training", step, (CPU,), rows, rows, stacks, recorded, epoch, is_last)


def record(segments: list[MemorySegment]) -> MemoryRecord:
    return MemoryRecord(segments=segments, stacks=[STACK])


def test_what_each_recorded_step_leaves_grows() -> None:
    steps = [segment(3 * number, number - 1, number) for number in range(1, 11)]
    grows = growing_lines(record([*steps, segment(40, 12, 11, is_last=True)]))
    assert [(each.line, each.holder, each.until) for each in grows] == [(12, "losses[...]", "the end")]
    assert grows[0].bytes_a_step == pytest.approx(1000, rel=0.05)
    assert grows[0].bytes == 12_000


def test_what_one_list_holds_grows_together() -> None:
    """Half of it was seen as it was allocated, in line 12; the rest as it was put there, in line 14."""
    steps = [segment(3 * number, number - 1, number) for number in range(1, 11)]
    steps = [replace(each, at_end=(*each.at_end, *(replace(row, stack=1) for row in each.at_end))) for each in steps]
    last = segment(40, 12, 11, is_last=True)
    last = replace(last, at_end=(*last.at_end, *(replace(row, stack=1) for row in last.at_end)))
    one_record = MemoryRecord(segments=[*steps, last], stacks=[STACK, (("main", "train.py", 14),)])
    [grows] = growing_lines(one_record)
    assert grows.bytes_a_step == pytest.approx(2000, rel=0.05)
    assert grows.bytes == 24_000


def test_a_last_value_that_is_replaced_does_not() -> None:
    steps = [segment(3 * number, 1, number) for number in range(1, 11)]
    assert growing_lines(record(steps)) == []


def test_a_variable_that_each_step_assigns_anew_is_no_holder_of_what_grows() -> None:
    """The look came early in an epoch, when only the variable had one."""
    steps = [segment(3 * number, number - 1, number) for number in range(1, 11)]
    look = segment(40, 1, 11, is_last=True)
    look = replace(look, at_end=tuple(replace(each, holder="fallen", holder_steps=0) for each in look.at_end))
    assert [(each.line, each.holder) for each in growing_lines(record([*steps, look]))] == [(12, "")]
    full = segment(40, 12, 11, is_last=True)
    full = replace(full, at_end=tuple(replace(each, holder_limit=50) for each in full.at_end))
    assert growing_lines(record([*steps, full])) == [], "a container of at most 50"


def test_what_an_epoch_clears_is_told_apart() -> None:
    kept = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    steps = [segment(3 * n, each, n, epoch=n // 6) for n, each in enumerate(kept, start=1)]
    steps[5] = replace(steps[5], epoch=1, at_end=())
    assert [each.until for each in growing_lines(record(steps))] == ["epoch"]


def test_what_an_epoch_clears_is_found_in_the_steps_of_that_epoch() -> None:
    """The last recorded step is the first of its epoch, and the epoch with most has few of all recorded steps."""
    kept = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0]
    steps = [segment(3 * n, each, n, epoch=(n - 1) // 5) for n, each in enumerate(kept, start=1)]
    look = segment(11, 3, 4, epoch=0, is_last=True)
    [grows] = growing_lines(record([*steps[:3], look, *steps[3:], segment(50, 0, 16, epoch=3, is_last=True)]))
    assert (grows.until, grows.holder, grows.bytes) == ("epoch", "losses[...]", 4000)


def looks(mib_a_look: int) -> list[HostLook]:
    return [look(float(number), p7=100 + mib_a_look * number) for number in range(40)]


def reports(pid: int = 7) -> list[StepReport]:
    return [replace(report(float(each)), pid=pid) for each in range(40)]


def test_a_process_that_grows_by_a_mebibyte_a_second() -> None:
    growth = process_growth(looks(1), reports())
    assert growth is not None
    assert growth.bytes_a_step == pytest.approx((1 << 20) / 10, rel=0.02)
    assert process_growth(looks(0), reports()) is None
    assert process_growth(looks(1), reports(pid=8)) is None
    assert process_growth(looks(1), []) is None


def test_a_process_that_is_started_again_grows_by_itself() -> None:
    later = [replace(each, ended_s=each.ended_s + 100.0, pid=8) for each in reports()]
    of_both = [replace(each, time_s=each.time_s + 100.0, processes={8: each.processes[7]}) for each in looks(1)]
    growth = process_growth([*looks(0), *of_both], [*reports(), *later])
    assert growth is not None
    assert (growth.pid, growth.bytes_a_step) == (8, pytest.approx((1 << 20) / 10, rel=0.02))
