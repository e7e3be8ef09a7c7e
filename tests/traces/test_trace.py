"""What is read of whole and of damaged traces."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import event, made_up, write

from workshop.traces import decoding, hta, read
from workshop.traces.decoding import TraceError
from workshop.traces.tables import tables
from workshop.traces.trace import Trace
from workshop.traces.trace_files import Traces
from workshop.traces.trace_findings import findings

ODD_NAME = 'call "of" C:\\data\\x\ny'
PIECES = [b"", b'"', b"\\", b"}", b"]", b"{", b",", b"\xff\x00", b"9" * 30]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
ARGUMENTS = st.sampled_from(["stream", "correlation", "device", "bytes"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ARGUMENTS, inner), max_leaves=5
)
KEYS = st.sampled_from(["name", "cat", "ts", "dur", "pid", "tid", "args", "ph"])


def columns(trace: Trace) -> list[list[int]]:
    return [getattr(trace.events, name).tolist() for name in type(trace.events).__dataclass_fields__]


def test_the_events_that_last(tmp_path: Path) -> None:
    found = read(write(tmp_path / "t.json.gz", made_up(3)))
    names = [found.names[name] for name in found.events.name]
    times = found.events.index.tolist(), names, found.events.ts.tolist(), found.events.dur.tolist()
    assert [*zip(*times, strict=True)] == [
        (place, each["name"], round(each["ts"] * 1000), round(each["dur"] * 1000))
        for place, each in enumerate(made_up(3)["traceEvents"])
        if "dur" in each and each["cat"] != "Trace"
    ]
    assert (found.damage, found.rank) == ((), made_up(3)["distributedInfo"]["rank"])


def test_blocks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.json", json.dumps(made_up(5), indent=1))
    whole = columns(read(path))
    for size in (97, 1000, 5000):
        monkeypatch.setattr("workshop.traces.decoding.BLOCK_BYTES", size)
        in_pieces = read(path)
        assert in_pieces.damage == ()
        assert columns(in_pieces) == whole


def test_nanoseconds_are_exact_however_long_ago(tmp_path: Path) -> None:
    times = ["1694039959117385.123", "1694039959117385.124", "1694039959117386.9"]
    events = [f'{{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": {time}, "dur": 0.001}}' for time in times]
    found = read(write(tmp_path / "t.json", f'{{"traceEvents": [{", ".join(events)}]}}'))
    assert found.events.ts.tolist() == [1694039959117385123, 1694039959117385124, 1694039959117386900]
    assert found.events.dur.tolist() == [1, 1, 1]


@pytest.mark.parametrize("correlation", [2**31 - 1, 2**31, 2**33])
def test_a_number_keeps_its_value_however_large(correlation: int, trace: Any) -> None:
    assert trace(event("kernel", "k", 1, 2, correlation=correlation)).events.correlation.tolist() == [correlation]


def test_values_of_unexpected_types(trace: Any) -> None:
    found = trace(
        event("kernel", "odd", 1, 2, stream="7", correlation=2**70, device=None, bytes="many"),
        event("kernel", "even", "5", 2, stream=True, correlation=1),
        event("kernel", "later", 1e300, 2, stream=7, correlation=1),
        {"ph": "X", "cat": "cpu_op", "name": 5, "ts": 3, "dur": 1, "pid": "a", "tid": None, "args": []},
    )
    assert [found.names[name] for name in found.events.name] == ["odd", "even", "5"]
    assert found.events.stream[0] == 7
    assert found.events.correlation[0] == -1
    assert found.damage == (f"1 event of {found.path} could not be read",)


def test_names_as_some_versions_write_them(tmp_path: Path) -> None:
    events = [event("cpu_op", f"name{n}", n, 1) for n in range(9)]
    text = json.dumps({"traceEvents": events, "distributedInfo": {"rank": 3}, "script": "train.py"})
    text = text.replace("name4", ODD_NAME).replace("name6", "\x01")
    found = read(write(tmp_path / "t.json", text))
    assert len(found.events) == 9
    assert {ODD_NAME, "\x01"} <= set(found.names)
    assert (found.damage, found.rank, found.script) == ((), 3, "train.py")


def test_one_bad_event_costs_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks behind it are read one by one, also where the brackets of empty lists do not end the events."""
    monkeypatch.setattr(decoding, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(decoding, "COMPRESSED_BYTES", 2000)
    last_events, left = decoding.Decoder._last_events, []
    monkeypatch.setattr(
        decoding.Decoder, "_last_events", lambda self, data: left.append(data) or last_events(self, data)
    )
    events = [event("cpu_op", f"name{n}", n, 1) | {"args": {"Input type": [], "Ev Idx": n}} for n in range(200)]
    text = json.dumps({"traceEvents": events, "distributedInfo": {"rank": 3}})
    found = read(write(tmp_path / "t.json", text.replace('"ts": 7,', '"ts": seven,')))
    assert (len(found.events), found.rank) == (199, 3)
    assert found.damage == (f"1 event of {found.path} could not be read",)
    assert len(left[0]) < 4000, "only what is behind the last whole block is left at the end"


@pytest.mark.parametrize("block", [2000, 1 << 22])
def test_a_name_that_is_no_text(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workshop.traces.decoding.BLOCK_BYTES", block)
    text = json.dumps({"traceEvents": [event("cpu_op", f"name{n}", n, 1) for n in range(200)]}).encode()
    found = read(write(tmp_path / "t.json", text.replace(b"name77", b"name\x9077")))
    assert (len(found.events), found.damage) == (200, ())
    assert "name\N{REPLACEMENT CHARACTER}77" in found.names


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_file_that_was_cut_off(suffix: str, tmp_path: Path) -> None:
    whole = write(tmp_path / f"whole{suffix}", json.dumps(made_up(8), indent=1))
    content = whole.read_bytes()
    cut = write(tmp_path / "cut.json", content[: -len(content) // 3])
    found = read(cut)
    assert 0 < len(found.events) < len(read(whole).events)
    assert len(found.damage) == 2 if suffix == ".json" else found.damage
    assert found.damage[0].startswith(f"{cut} ends too early")


def test_one_bad_byte_of_what_was_compressed_costs_what_is_behind_it(tmp_path: Path) -> None:
    events = [event for seed in range(50) for event in made_up(seed)["traceEvents"]]
    whole = write(tmp_path / "whole.json.gz", json.dumps({"traceEvents": events}))
    content = bytearray(whole.read_bytes())
    content[len(content) // 2] ^= 255
    damaged = write(tmp_path / "damaged.json", bytes(content))
    assert 0 < len(read(damaged).events) < len(read(whole).events)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"Dear diary", "is no trace of torch.profiler; "),
        (b'{"a": 1}', "is no trace of torch.profiler: it is JSON of another kind"),
        (b"[[1700000, 0, [[3, 0], 0], 512]]", "is no trace of torch.profiler: it is a memory timeline of torch"),
        (b"[[1700000, 1700001], [[0, 512], [0, 0]]]", "it is a memory timeline of torch"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"\x1f\x8b", "is damaged: nothing of it can be decompressed"),
        (b'{"traceEvents": [{{{', "is damaged: no event of it can be read"),
    ],
)
def test_what_is_no_trace(content: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=says):
        read(write(tmp_path / "t.json", content))


def test_events_alone_and_no_events_are_a_trace(trace: Any, tmp_path: Path) -> None:
    assert len(read(write(tmp_path / "t.json", [event("cpu_op", "aten::add", 1, 2)])).events) == 1
    found = Traces([trace()])
    assert len(found[0].events) == 0
    table = tables(found)
    assert [table[name] for name in ("temporal", "idle", "operators", "steps")] == [[]] * 4
    assert findings(found) == []


def analyse(path: Path) -> None:
    """Read a trace and run every analysis of it, or learn that it is none."""
    try:
        found = read(path)
    except TraceError:
        return
    tables(Traces([found])), findings({0: found, 1: found}), hta.analyses({0: found})


@settings(max_examples=60)
@given(seed=st.integers(0, 50), data=st.data())
def test_damage_is_survived(seed: int, data: st.DataObject, tmp_path: Path) -> None:
    """Bytes that are lost, doubled, or others: a trace comes out, with what was read, or the one error."""
    content = bytearray(json.dumps(made_up(seed), indent=random.Random(seed).choice([None, 1])).encode())
    if data.draw(st.booleans()):
        content = bytearray(gzip.compress(bytes(content), 1))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, max(len(content) - 1, 0)))
        end = start + data.draw(st.sampled_from([0, 1, 2, 30, 1000]))
        content[start:end] = data.draw(st.sampled_from(PIECES))
    analyse(write(tmp_path / "t.json", bytes(content)))


@settings(max_examples=50)
@given(st.lists(st.dictionaries(KEYS, VALUES), max_size=5))
def test_any_json_is_survived(tmp_path: Path, events: list[Any]) -> None:
    analyse(write(tmp_path / "t.json", {"traceEvents": events, "distributedInfo": events, "x": events}))


@pytest.mark.parametrize("broken", [False, True])
def test_lists_of_objects_behind_the_events(broken: bool, tmp_path: Path) -> None:
    """The last bracket is not always the one that closes the list of events."""
    text = json.dumps(made_up(3) | {"deviceProperties": [{"id": 0, "of": [{"no": 1}]}], "last": [{}]})
    whole = columns(read(write(tmp_path / "t.json", made_up(3))))
    found = read(write(tmp_path / "u.json", text.replace('"ph": "X"', '"ph" "X"', 1) if broken else text))
    assert len(found.damage) == broken
    assert len(found.events) == len(whole[0]) - broken
