"""What a trace with allocations tells of memory: by phase, at the peak, and who held it then."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from hypothesis import given
from hypothesis import strategies as st
from made_traces import a_step, allocation, event, write

from workshop.traces import memory, read
from workshop.traces.hta.analysis import TraceAnalysis
from workshop.traces.tables import tables
from workshop.traces.trace import Trace
from workshop.traces.trace_files import load
from workshop.traces.trace_findings import findings

CUDA = {"device": (1, 0)}
MODEL = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.ones(512, 256), batch_size=64):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def two_steps(trace: Callable[..., Trace]) -> Trace:
    """On one device 1000 bytes were in use before; of these, 300 are released. An address is used twice."""
    return trace(
        a_step(1, 0),
        allocation(30, 100, address=1, total=1100, **CUDA),  # in aten::mkldnn_convolution, in aten::conv2d
        allocation(62, 50, address=2, total=1150, **CUDA),  # in aten::mm, in the backward pass
        allocation(90, -100, address=1, total=1050, **CUDA),
        allocation(98, -300, address=9, total=750, **CUDA),
        a_step(2, 100),
        allocation(122, 600, address=1, total=1350, **CUDA),  # in aten::conv2d
        allocation(130, 40, address=3, total=1390, **CUDA),
        allocation(162, 10, address=4, total=1400, **CUDA),
        allocation(163, -10, address=4, total=1390, **CUDA),
        allocation(110, 8, address=1),
        allocation(110, 8, address=2),
        allocation(190, -8, address=1),
        allocation(199, 7, address=3),
    )


def test_by_phase(two_steps: Trace) -> None:
    rows = [row for row in memory.by_phase(two_steps) if row["device"] == "cuda:0"]
    assert [tuple(row.values())[1:] for row in rows] == [
        ("forward", 3, 740, 0, 0, 1390),
        ("backward", 2, 60, 1, 10, 1400),
        ("optimizer", 0, 0, 1, 100, 1150),
        ("other", 0, 0, 1, 300, 1050),
    ]


def test_the_peak_and_who_held_it(two_steps: Trace) -> None:
    cpu, gpu = memory.peaks(two_steps)
    assert gpu == {
        "device": "cuda:0",
        "peak(bytes)": 1400,
        "reserved(bytes)": 2800,
        "step": 2,
        "phase": "backward",
        "recorded(bytes)": 700,
        "recorded_pctg": 50,
    }
    rows = [tuple(row.values())[1:] for row in memory.held(two_steps) if row["device"] == "cuda:0"]
    assert rows == [
        ("before the recording", None, None, None, 700, 50),
        ("aten::conv2d", "aten::conv2d", "forward", 1, 600, pytest.approx(100 * 600 / 1400)),
        ("ConvBackward", "aten::mm", "backward", 2, 60, pytest.approx(100 * 60 / 1400)),
        ("aten::conv2d", "aten::mkldnn_convolution", "forward", 1, 40, pytest.approx(100 * 40 / 1400)),
    ]
    assert (cpu["peak(bytes)"], cpu["phase"], cpu["recorded_pctg"]) == (16, "data wait", 100), "this one counts nothing"


def test_in_words_and_as_text(two_steps: Trace, workshop: Run) -> None:
    facts = [each.text for each in findings({0: two_steps}) if each.share is None]
    assert facts[1] == (
        "at most 1.4 kB of memory on cuda:0 were in use at once (backward, step 2); of that 700 bytes (50%) from "
        "before the recording and 600 bytes (43%) from aten::conv2d (forward)"
    )
    done = workshop("trace", two_steps.path, "--tables", "allocations")
    assert "When most memory was in use" in done.stdout
    assert "aten::mkldnn_convolution" in done.stdout
    assert facts[1][:50] in workshop("trace", two_steps.path).stdout
    workshop("trace", two_steps.path, "--html", "page.html")
    assert f"<li>{facts[1]}</li>" in Path("page.html").read_text()
    found, at_peak = TraceAnalysis([str(two_steps.path)], include_last_profiler_step=True).get_memory_peaks()
    assert (len(found), at_peak["bytes"].sum()) == (2, found["peak(bytes)"].sum())


def test_what_the_last_step_allocates_is_left_out_with_it(two_steps: Trace) -> None:
    found = TraceAnalysis([str(two_steps.path)]).get_allocations()
    rows = found[["phase", "allocations", "releases"]].to_numpy().tolist()
    assert rows == [["forward", 1, 0], ["backward", 1, 0], ["optimizer", 0, 1], ["other", 0, 1]]


def test_without_allocations_one_line_says_how_to_record_them(workshop: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", {"traceEvents": a_step(1, 0)})
    done = workshop("trace", path, "--tables", "allocations")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "No memory was recorded; `workshop record torch --memory -- SCRIPT` records it.\n"
    assert all(len(column) == 0 for column in read(path).allocations)


def test_an_allocation_that_cannot_be_read_is_counted(trace: Callable[..., Trace]) -> None:
    found = trace(allocation(1, 5, 1), allocation(1e300, 5, 1), allocation(3, "many", "0x7f"))  # type: ignore[arg-type]
    assert found.damage == (f"1 event of {found.path} could not be read",)
    assert (found.allocations.size.tolist(), found.allocations.address.tolist()) == ([5, 0], [1, -1])


MOVES = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 100), st.booleans()), max_size=40)


@given(moves=MOVES, before=st.integers(0, 500))
def test_as_an_allocator_that_keeps_books(moves: Any, before: int, tmp_path: Path) -> None:
    """Addresses are used again, some releases are not recorded, and some are of what was allocated before."""
    total, blocks, most = before, {}, (0, {})
    events: list[Any] = [event("cpu_op", f"operator{n}", 10 * n, 10) for n in range(len(moves))]
    for at, (address, size, release) in enumerate(moves):
        holder = f"operator{at}"
        if release and address in blocks:
            size = -blocks.pop(address)[1]
        elif release:
            size = -min(size, total - sum(held for _, held in blocks.values()))
        else:
            total -= blocks.pop(address, (holder, 0))[1]
            blocks[address] = (holder, size)
        total += size
        if total > most[0]:
            most = (total, dict(blocks))
        events.append(allocation(10 * at + 5, size, address, total=total))
    found = read(write(tmp_path / "t.json", {"traceEvents": events}))
    held = {row["name"]: row["bytes"] for row in memory.held(found)}
    expected = Counter[str]()
    for holder, size in most[1].values():
        expected[holder] += size
    if rest := most[0] - expected.total():
        expected["before the recording"] = rest
    assert held == expected
    assert [row["peak(bytes)"] for row in memory.peaks(found)] == [most[0]] * bool(most[0])


@pytest.mark.slow
def test_a_real_recording(workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    done = workshop("record", "torch", "--memory", "--wait", "1", "--", "mine.py")
    assert done.returncode == 0, done.stderr
    traces = load([tmp_path / "prof"])
    found = tables(traces, ["allocations"])
    by_phase = {row["phase"]: row for row in found["allocations"]}
    assert by_phase["data wait"]["allocated(bytes)"] >= 64 * 256 * 4
    assert by_phase["forward"]["allocated(bytes)"] >= 64 * 512 * 4
    assert by_phase["backward"]["allocated(bytes)"] >= 256 * 512 * 4
    [peak] = found["peaks"]
    assert (peak["device"], peak["phase"]) == ("cpu", "backward")
    assert peak["recorded_pctg"] > 90
    assert found["held"][0]["name"] == "AddmmBackward0"
