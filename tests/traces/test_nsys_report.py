"""A report of nsys, with the columns of a real one (2022.4) that are read, becomes the same tables as a trace."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from made_traces import event

from workshop.probe.phases import Phase
from workshop.traces import nsys_report
from workshop.traces.decoding import TraceError
from workshop.traces.nsys_report import NO_STREAM, read
from workshop.traces.steps import traced_steps
from workshop.traces.tables import tables
from workshop.traces.trace_files import load
from workshop.traces.trace_findings import findings

SCHEMA = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER,
    nameId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER, contextId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, eventId INTEGER);
"""
CUPTI = "CUPTI_ACTIVITY_KIND_"
PROCESS = 281545759784960
THREAD = PROCESS + 4219
US = 1000
PHASES = ["data wait", "optimizer", "forward", "backward", "optimizer"]

Make = Callable[..., Path]


def opened(path: Path) -> closing[sqlite3.Connection]:
    """A database that does not wait for the disk."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")
    return closing(database)


def add(path: Path, table: str, *rows: tuple[int | str | None, ...]) -> None:
    with opened(path) as database:
        database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        database.commit()


def change(path: Path, *statements: str) -> None:
    with opened(path) as database:
        database.executescript(";".join(statements))


@pytest.fixture
def report(tmp_path: Path) -> Make:
    def report(gpu: bool = True, steps: int = 3) -> Path:
        path = tmp_path / "report.sqlite"
        change(path, SCHEMA)
        add(path, "StringIds", (1, "gemm"), (2, "cudaLaunchKernel_v7000"), (3, "cudaMemcpyAsync_v3020"), (4, "forward"))
        starts = [100 * US * step for step in range(steps)]
        phases = [(begin + 20 * US * n, phase) for begin in starts for n, phase in enumerate(PHASES)]
        texts = {phase: (phase, None) for phase in PHASES} | {"forward": (None, 4)}
        ranges = [(at, at + 15 * US, 59, texts[phase][0], THREAD, texts[phase][1]) for at, phase in phases]
        add(path, "NVTX_EVENTS", *ranges, (5, None, 34, "a mark", THREAD, None))
        for step, begin in enumerate(starts if gpu else ()):
            copy, kernel = 2 * step, 2 * step + 1
            calls = (16, 17, copy, 3), (40, 42, kernel, 2)
            runtime = [(begin + start * US, begin + end * US, THREAD, *others) for start, end, *others in calls]
            add(path, f"{CUPTI}RUNTIME", *runtime)
            add(path, f"{CUPTI}MEMCPY", (begin + 18 * US, begin + 28 * US, 0, 7, copy, PROCESS, 4096, 1, 0, 2))
            add(path, f"{CUPTI}KERNEL", (begin + 44 * US, begin + 74 * US, 0, 7, kernel, PROCESS, 1))
        return path

    return report


def test_steps_and_phases_are_those_of_the_ranges(report: Make) -> None:
    traces = load([report(gpu=False)])
    steps = traced_steps(traces[0])
    assert [(step.number, step.start // US, step.end // US) for step in steps] == [
        (0, 0, 95),
        (1, 95, 195),
        (2, 195, 295),
    ]
    for step in steps[1:]:
        assert {str(phase): time // US for phase, time in step.phases.items()} == {
            "data wait": 15,
            "host-to-device copy": 0,
            "forward": 15,
            "backward": 15,
            "optimizer": 30,
            "other": 25,
        }
    found = tables(traces)
    assert (found["temporal"], found["idle"]) == ([], []), "no operators are in it"
    assert [each.topic for each in findings(traces)] == ["data wait"]


def test_what_the_gpu_did_is_what_it_would_be_of_a_trace(report: Make) -> None:
    found = tables(load([report()]))
    assert found["temporal"][0]["kernel_time(us)"] == 256
    assert found["temporal"][0]["compute_time(us)"] == 90
    assert ("gemm", 3) in [(row["name"], row["count"]) for row in found["kernels"]]
    [copies] = found["memory"]
    assert (copies["name"], copies["count"], copies["bytes"]) == ("Memcpy HtoD (Pageable -> Device)", 3, 3 * 4096)
    [launches] = found["launch"]
    assert (launches["launches"], launches["cpu_duration(us)"], launches["max_launch_delay(us)"]) == (6, 1.5, 2)
    assert {row["device_busy(us)"] for row in found["steps"]} == {40}


def test_synchronisations_are_those_of_torch(report: Make) -> None:
    path = report()
    streams = enumerate((NO_STREAM, 7, 7, NO_STREAM), 1)
    rows = [(10 * kind, 10 * kind + 4, 0, 1, stream, 50 + kind, PROCESS, kind, 3) for kind, stream in streams]
    add(path, f"{CUPTI}SYNCHRONIZATION", *rows, (0, 0, 0, 1, 7, 60, PROCESS, 3, 3))
    trace = read(path)
    found = trace.events[trace.of("cuda_sync")]
    names = [trace.names[name] for name in found.name]
    assert [*zip(names, found.stream.tolist(), found.correlation.tolist(), found.dur.tolist(), strict=True)] == [
        ("Event Sync", -1, 51, 4),
        ("Stream Wait Event", 7, 52, 4),
        ("Stream Sync", 7, 53, 4),
        ("Context Sync", -1, 54, 4),
    ]
    assert not set(found.index) & set(trace.gpu.index), "they take no time of the device"


def test_two_processes_with_the_same_correlations_are_told_apart(report: Make) -> None:
    path = report()
    with opened(path) as database:
        for table, place in {"RUNTIME": "globalTid", "KERNEL": "globalPid", "MEMCPY": "globalPid"}.items():
            whole = f"{CUPTI}{table}"
            columns = [name for _, name, *_ in database.execute(f"PRAGMA table_info({whole})")]
            later = {"start": f"start + {1000 * US}", "end": f"end + {1000 * US}", place: f"{place} + {1 << 24}"}
            changed = ", ".join(later.get(name, name) for name in columns)
            database.execute(f"INSERT INTO {whole} SELECT {changed} FROM {whole}")
        database.commit()
    [launches] = tables(load([path]))["launch"]
    assert (launches["launches"], launches["cpu_duration(us)"], launches["max_launch_delay(us)"]) == (12, 1.5, 2)


def test_a_wait_for_an_event_is_for_its_last_record(report: Make) -> None:
    path, other = report(), PROCESS + (1 << 24)
    records = [
        *((7, 100, PROCESS, 3), (20, 110, PROCESS, 3), (21, 105, PROCESS, 4)),
        *((22, 130, PROCESS, 3), (23, 112, other, 3)),
    ]
    waits = [
        *((109, PROCESS, 1, 3), (120, PROCESS, 2, 3), (121, PROCESS, 1, 4), (122, PROCESS, 1, 5)),
        *((123, PROCESS, 3, 3), (120, other, 1, 3), (99, PROCESS, 1, 3)),
    ]
    add(path, f"{CUPTI}CUDA_EVENT", *((0, 1, *record) for record in records))
    add(path, f"{CUPTI}SYNCHRONIZATION", *((9, 10, 0, 1, 7, *wait) for wait in waits))
    trace = read(path)
    found = trace.events[trace.of("cuda_sync")]
    in_other = 112 + found.correlation.max() - 120  # its numbers begin behind those of the first process
    expected = [(100, 7), (110, 20), (105, 21), (-1, -1), (-1, -1), (in_other, 23), (-1, -1)]
    assert [*zip(found.waits_on.tolist(), found.waits_on_stream.tolist(), strict=True)] == expected
    assert {*trace.events.waits_on[~trace.of("cuda_sync")].tolist()} == {-1}


def test_blocks_and_odd_values(report: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    path = report()
    whole = read(path)
    monkeypatch.setattr(nsys_report, "BLOCK_ROWS", 2)
    in_pieces = read(path)
    for name in type(whole.events).__dataclass_fields__:
        assert getattr(whole.events, name).tolist() == getattr(in_pieces.events, name).tolist()
    change(
        path,
        f"UPDATE {CUPTI}KERNEL SET streamId = NULL, deviceId = 'odd', demangledName = 9",
        f"UPDATE {CUPTI}MEMCPY SET srcKind = NULL, end = 0",
        f"UPDATE {CUPTI}RUNTIME SET start = {2**63 - 1} WHERE correlationId = 0",
    )
    odd = read(path)
    kernels, copies = odd.gpu[odd.gpu.dur > 0], odd.gpu[odd.gpu.dur == 0]
    assert ({*kernels.stream}, {*kernels.device}, {odd.names[name] for name in kernels.name}) == ({-1}, {0}, {"9"})
    assert {odd.names[name] for name in copies.name} == {"Memcpy HtoD (Unknown -> Device)"}
    assert odd.damage == (f"1 event of {path} could not be read",)
    change(path, "DELETE FROM NVTX_EVENTS", *(f"DELETE FROM {CUPTI}{table}" for table in ("KERNEL", "MEMCPY")))
    change(path, f"DELETE FROM {CUPTI}RUNTIME WHERE correlationId != 0")
    with pytest.raises(TraceError, match="neither NVTX ranges nor anything of a GPU"):
        read(path)


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_survived(seed: int, report: Make, tmp_path: Path) -> None:
    chance = random.Random(seed)
    content = bytearray(report(steps=40).read_bytes())
    if seed % 2:
        content = content[: chance.randrange(16, len(content))]
    for _ in range(chance.randint(1, 12)):
        at = chance.randrange(16, len(content))
        content[at : at + 30] = chance.randbytes(len(content[at : at + chance.choice([1, 4, 30])]))
    (tmp_path / "damaged.sqlite").write_bytes(content)
    with suppress(TraceError):
        found = load([tmp_path / "damaged.sqlite"])
        tables(found), findings(found)


def test_a_message_that_quotes_damaged_text_is_one_line(report: Make) -> None:
    path = report()
    damaged = path.read_bytes().replace(b"NVTX_EVENTSNVTX_EVENTS", b"NV\n\xfe_EVENTSNVTX_EVENTS")
    path.write_bytes(damaged.replace(b"CREATE TABLE NVTX", b"CREATE TOBLE NVTX"))
    with pytest.raises(TraceError, match=r"report\.sqlite is no report of nsys, or is damaged: ") as raised:
        read(path)
    assert "\n" not in str(raised.value)


def test_a_path_with_signs_of_an_address(report: Make, tmp_path: Path) -> None:
    path = report().rename(tmp_path / "50%25?mode=rwc#1.sqlite")
    assert len(read(path).events)


def test_other_files(report: Make, workshop: Run, tmp_path: Path) -> None:
    path = report()
    assert "Steps, and what the thread" in workshop("trace", path).stdout
    (tmp_path / "cut.sqlite").write_bytes(path.read_bytes()[:5000])
    change(tmp_path / "other.sqlite", "CREATE TABLE mine (id INTEGER)")
    change(tmp_path / "nothing.sqlite", SCHEMA)
    for name, says in (
        ("cut.sqlite", "cut.sqlite is no report of nsys, or is damaged: "),
        ("other.sqlite", "other.sqlite is no report of nsys: make one with nsys export"),
        ("nothing.sqlite", "nothing.sqlite has neither NVTX ranges nor anything of a GPU"),
    ):
        done = workshop("trace", tmp_path / name)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1
    with pytest.raises(TraceError):
        load([tmp_path / "cut.sqlite"])


def test_ranges_of_ones_own_are_no_phases_where_operators_were_recorded(trace: Any) -> None:
    found = trace(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("user_annotation", "forward", 0, 90),
        event("user_annotation", "enumerate(DataLoader)#_Iter", 0, 40),
        event("cpu_op", "aten::mm", 50, 20),
    )
    [step] = traced_steps(found)
    assert (step.phases[Phase.DATA_WAIT], step.phases[Phase.FORWARD]) == (40 * US, 20 * US)
