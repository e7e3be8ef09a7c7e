"""What torch has recorded of a CUDA device is read without a CUDA device, and without running anything."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

from workshop.errors import WorkshopError
from workshop.memory.memory_diagnosis import MemoryDiagnosis
from workshop.memory.snapshot_file import is_snapshot, read_snapshot
from workshop.probe.observations import AllocatorUse

MIB = 2**20


def frames(line: int) -> list[dict[str, Any]]:
    """What torch notes, innermost frame first: C++, torch and the user's code."""
    return [
        {"name": "torch::unwind::unwind()", "filename": "??", "line": 0},
        {"name": "forward", "filename": "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", "line": 116},
        {"name": "main", "filename": "/somewhere/else/train.py", "line": line},
        {"name": "<module>", "filename": "/somewhere/else/train.py", "line": 99},
    ]


def event(action: str, address: int, mib: int, time_us: int, line: int = 0) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": mib * MIB,
        "stream": 0,
        "time_us": time_us,
        "frames": frames(line) if line else [],
    }


def block(state: str, size: int, requested: int, line: int = 0) -> dict[str, Any]:
    kept = frames(line) if line else []
    return {"state": state, "size": size * MIB, "requested_size": requested * MIB, "frames": kept}


RECORD = [
    event("alloc", 100, 10, 0, line=10),
    event("alloc", 200, 20, 1_000_000, line=20),  # the most: 70 with what was there before
    event("free_requested", 100, 10, 1_500_000),
    event("free_completed", 100, 10, 1_600_000),
    event("free_completed", 900, 30, 2_000_000),  # of which the record has no allocation
    event("alloc", 100, 5, 3_000_000, line=30),  # where another block has been
    event("snapshot", 0, 0, 4_000_000),
]
AT_END = [
    block("active_allocated", 20, 20, line=20),
    block("inactive", 4, 0),
    block("active_allocated", 10, 10, line=5),  # from before the record
]


def snapshot(record: list[dict[str, Any]]) -> dict[str, Any]:
    first = {"device": 0, "address": 200, "total_size": 34 * MIB, "blocks": AT_END}
    other = {"device": 0, "address": 100, "total_size": 6 * MIB, "blocks": [block("active_allocated", 6, 5, line=30)]}
    return {"segments": [first, other], "device_traces": [record]}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(what: object, name: str = "snapshot.pickle") -> Path:
        (tmp_path / name).write_bytes(pickle.dumps(what))
        return tmp_path / name

    return written


def test_the_peak_by_line(write: Any) -> None:
    (peak,) = MemoryDiagnosis(read_snapshot(write(snapshot(RECORD)))).peaks
    assert (peak.device, peak.memory.peak_bytes, peak.memory.end_bytes) == ("cuda:0", 70 * MIB, 35 * MIB)
    found = {(each.kind, each.function, each.line): each.bytes // MIB for each in peak.lines}
    assert found == {
        ("before the record", "", 0): 30,
        ("of unknown kind", "main", 20): 20,
        ("of unknown kind", "main", 10): 10,
        ("of unknown kind", "main", 5): 10,
    }
    assert sum(peak.kinds.values()) == peak.memory.peak_bytes
    assert peak.memory.curve == (
        *((0.0, 40 * MIB), (0.0, 50 * MIB), (1.0, 70 * MIB)),
        *((1.6, 60 * MIB), (2.0, 30 * MIB), (3.0, 35 * MIB)),
    )


def test_what_was_held_when_an_allocation_failed(write: Any) -> None:
    failed = {**event("oom", 0, 500, 2_500_000, line=40), "device_free": 7 * MIB}
    diagnosis = MemoryDiagnosis(read_snapshot(write(snapshot([*RECORD[:5], failed, *RECORD[5:]]))))
    assert diagnosis.failure == (
        "The script ran out of memory: an allocation of 500.0 MiB failed, with 7.0 MiB of the device free"
    )
    (peak,) = diagnosis.peaks
    assert peak.memory.peak_bytes == 30 * MIB
    assert [each.line for each in peak.lines] == [20, 5]


def test_the_failure_is_told_of_whichever_device(write: Any) -> None:
    failed = {**event("oom", 0, 500, 2_500_000), "device_free": 0}
    both = snapshot([*RECORD[:5], failed, *RECORD[5:]])
    both["segments"].append({"device": 1, "address": 7, "blocks": [block("active_allocated", 1, 1)]})
    both["device_traces"].append([])
    diagnosis = MemoryDiagnosis(read_snapshot(write(both)))
    assert "500.0 MiB failed" in diagnosis.failure
    assert [each.device for each in diagnosis.peaks] == ["cuda:0", "cuda:1"]


def test_a_failure_after_which_as_much_was_allocated_is_a_note(write: Any) -> None:
    """As where a library has asked for a smaller workspace."""
    retried = [event("oom", 0, 15, 500_000), *RECORD]
    measured = read_snapshot(write(snapshot(retried)))
    diagnosis = MemoryDiagnosis(measured)
    assert (diagnosis.failure, diagnosis.peaks[0].memory.peak_bytes) == ("", 70 * MIB)
    assert measured.notes[1] == "An allocation has failed on cuda:0, and the script went on with others as large."


def test_a_backward_pass_has_a_row_of_its_own(write: Any) -> None:
    """Its threads have no Python frames."""
    record = [*RECORD]
    engine = {"name": "torch::autograd::Engine::evaluate_function()", "filename": "??", "line": 0}
    record[1] = {**record[1], "frames": [engine]}
    (peak,) = MemoryDiagnosis(read_snapshot(write(snapshot(record)))).peaks
    assert {kind: size // MIB for kind, size in peak.kinds.items()} == {
        "in backward": 20,
        "of unknown kind": 20,
        "before the record": 30,
    }


def test_a_record_of_states_has_the_lines_of_what_is_left(write: Any) -> None:
    bare = [{**each, "frames": []} for each in RECORD]
    (peak,) = MemoryDiagnosis(read_snapshot(write(snapshot(bare)))).peaks
    assert {each.line for each in peak.lines if each.file} == {20, 5}


@pytest.mark.parametrize("skipped", ["alloc", "free_completed"])
def test_a_record_that_leaves_things_out_is_refused(skipped: str, write: Any) -> None:
    rest = [each for each in RECORD if each["action"] != skipped]
    with pytest.raises(WorkshopError, match="record it without skip_actions"):
        read_snapshot(write(snapshot(rest)))


def test_a_long_record_keeps_its_peak(write: Any) -> None:
    short = [event(action, 100, 1, number) for number in range(3000) for action in ("alloc", "free_completed")]
    short[2000:2000] = [event("alloc", 500, 7, 1000), event("free_completed", 500, 7, 1000)]
    (peak,) = MemoryDiagnosis(read_snapshot(write({"segments": [], "device_traces": [short]}))).peaks
    assert peak.memory.peak_bytes == 7 * MIB
    assert len(peak.memory.curve) <= 501
    assert 7 * MIB in [size for _, size in peak.memory.curve]


def test_it_is_known_whatever_its_name_ends_in(write: Any, tmp_path: Path) -> None:
    named = write({"segments": [], "device_traces": []}).rename(tmp_path / "snap.pt")
    other = tmp_path / "model.pt"
    other.write_bytes(pickle.dumps({"weights": [1.0]}))
    assert [is_snapshot(str(each)) for each in (named, other, tmp_path / "absent.pt")] == [True, False, False]


class Runs:
    """What a pickle may do as it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("was_run",)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ({**snapshot(RECORD), "more": Runs()}, r"contains posix\.mkdir, which is not read"),
        ([1, 2], "segments and device_traces are missing"),
        ({"segments": [{"device": 0}], "device_traces": [[]]}, "KeyError: 'address'"),
        ({"segments": [], "device_traces": [[{**RECORD[0], "size": 10**400}]]}, "ValueError: 1000.* is no size"),
        ({"segments": [], "device_traces": [[{**RECORD[0], "size": "\x1b[2J"}]]}, "ValueError: '.*' is no size"),
        ({"segments": [], "device_traces": [[]]}, "has no memory in it"),
    ],
)
def test_what_is_no_snapshot_is_told_and_nothing_is_run(
    what: object, says: str, write: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write(what)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkshopError, match=says) as raised:
        read_snapshot(path)
    assert str(raised.value).isprintable()
    assert not Path("was_run").exists()


def test_the_command(workshop: Run, write: Any, tmp_path: Path) -> None:
    write(snapshot(RECORD))
    done = workshop("memory", "--html", "page.html", "--save", "saved.json", "snapshot.pickle")
    assert (done.returncode, done.stderr) == (0, "")
    assert "snapshot.pickle: 70.0 MiB allocated on cuda:0\n" in done.stdout
    assert "The known line that makes most of it, 29%: train.py:20, in main" in done.stdout
    assert "None of the known causes" not in done.stdout
    assert max(map(len, done.stdout.splitlines()[:10])) <= 80
    assert "train.py" in (tmp_path / "page.html").read_text()

    later = workshop("memory", "--json", "--against", "saved.json", "snapshot.pickle")
    assert json.loads(later.stdout)["peaks"][0]["peak_bytes"] == 70 * MIB

    (tmp_path / "text.pickle").write_text("no pickle")
    broken = workshop("memory", "text.pickle")
    assert (broken.returncode, broken.stdout) == (2, "")
    assert broken.stderr.count("\n") == 1


def test_what_the_allocator_has_taken_from_the_device_and_given_back(write: Any) -> None:
    """As where each step empties the cache, and small blocks keep large segments."""
    made, let_go = event("alloc", 300, 40, 0), event("free_completed", 300, 40, 0)
    step = [event("segment_alloc", 300, 2000, 0), made, let_go, event("segment_free", 300, 2000, 0)]
    measured = read_snapshot(write(snapshot([*RECORD, *step * 5])))
    allocator = MemoryDiagnosis(measured).peaks[0].memory.allocator
    assert allocator == AllocatorUse((34 + 6 + 2000) * MIB, (35 + 40) * MIB, returned=4, retries=0)
    assert measured.notes[1] == (
        "The allocator of cuda:0 gave memory back to the GPU 4 times in all; it has 2.0 GiB reserved, of which at most "
        "0.1 GiB were allocated at a time."
    )
    assert len(read_snapshot(write(snapshot(RECORD))).notes) == 1, "what is there is in use"
