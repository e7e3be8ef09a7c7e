"""What is written of a trace, and what of it is read again."""

import gzip
import json
from pathlib import Path

import pytest
from made_traces import event, made_up, write

from workshop.traces import read
from workshop.traces.decoding import TraceError
from workshop.traces.rewriting import exact_us, rewrite


def test_everything_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workshop.traces.decoding.BLOCK_BYTES", 999)
    for seed in range(5):
        trace = made_up(seed)
        behind = trace | {"traceName": "a \u00fc.json", "other": [1, {"x": None}]}
        source = write(tmp_path / "t.json", behind)
        rewrite(source, tmp_path / "u.json.gz")
        assert json.loads(gzip.decompress((tmp_path / "u.json.gz").read_bytes())) == behind
        rewrite(tmp_path / "u.json.gz", tmp_path / "u.json", added=[{"ph": "C", "name": "n"}, {"ph": "i"}])
        added = [*trace["traceEvents"], {"ph": "C", "name": "n"}, {"ph": "i"}]
        assert json.loads((tmp_path / "u.json").read_text()) == behind | {"traceEvents": added}


def test_marked_events_are_those_of_the_columns(tmp_path: Path) -> None:
    """Of a damaged file, too: the events that cannot be read have no position."""
    fixed = event("cpu_op", "an odd name", 5, 1) | {"pid": {"no": "number"}}
    parts = [
        json.dumps(event("kernel", "k", 1, 2, stream=7, correlation=4)),
        '{"ph": "X", "ts": "never", "dur": 7, "name": "lost"}',
        json.dumps(fixed),
        '{"ph": "X", "name": "not "escaped"", "cat": "cpu_op", "ts": 1694039959117385.123, "dur": 0.5, "args": 3}',
        json.dumps({"ph": "s", "id": 3, "ts": 4, "name": "flow"}),
        json.dumps(event("user_annotation", "forward", 1, 9)),
        json.dumps(event("cpu_op", "aten::add", 1, 9)),
    ]
    source = write(tmp_path / "t.json", f'{{"traceEvents": [{",".join(parts)}]}}')
    found = read(source).events
    names = read(source).names
    marked = {int(index): {"critical": names[name]} for index, name in zip(found.index, found.name, strict=True)}
    del marked[max(marked)], marked[max(marked)]
    rewrite(source, source, marked=marked, only_marked=True)
    events = json.loads(source.read_text(), parse_float=str)["traceEvents"]
    assert [each["name"] for each in events] == ["k", "an odd name", 'not "escaped"', "flow", "forward"]
    assert events[0]["args"] == {"stream": 7, "correlation": 4, "critical": "k"}
    assert [each["args"]["critical"] for each in events[:3]] == [each["name"] for each in events[:3]]
    assert "critical" not in str(events[3:])


def test_times_keep_all_digits(tmp_path: Path) -> None:
    text = '{"ph": "X", "name": "a", "cat": "cpu_op", "ts": 1694039959117385.123, "dur": 0.001, "args": {"n": 1.10}}'
    source = write(tmp_path / "t.json", f'{{"traceEvents": [{text}]}}')
    rewrite(source, source, [{"ph": "i", "ts": exact_us(1694039959117386_001)}], marked={0: {"more": 1}})
    assert "1694039959117385.123" in source.read_text()
    assert "1694039959117386.001" in source.read_text()
    assert "1.10" in source.read_text()


def test_what_is_no_trace(tmp_path: Path) -> None:
    source, target = write(tmp_path / "t.json", "{}"), write(tmp_path / "u.json", "before")
    with pytest.raises(TraceError, match="is no trace"):
        rewrite(source, target)
    assert target.read_text() == "before"
    assert len([*tmp_path.iterdir()]) == 2
