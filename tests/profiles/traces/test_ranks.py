"""Traces of several ranks."""

from pathlib import Path

import pytest
from made_traces import made_up, write

from workshop.profiles.traces import TraceError, load


def test_a_folder_with_other_files_in_it(tmp_path: Path) -> None:
    write(tmp_path / "b.json.gz", made_up(1) | {"distributedInfo": {"rank": 1}})
    write(tmp_path / "a.json", made_up(2) | {"distributedInfo": {"rank": 0}})
    write(tmp_path / "notes.json", "{}")
    write(tmp_path / "readme.txt", "no trace")
    found = load([tmp_path])
    assert list(found) == [0, 1]
    [note] = found.notes
    assert note.startswith(f"passed over: {tmp_path / 'notes.json'}")
    with pytest.raises(TraceError, match="no traceEvents"):
        load([tmp_path / "a.json", tmp_path / "notes.json"])


def test_no_rank_is_lost_to_another(tmp_path: Path) -> None:
    for name, rank in {"x.json": None, "y.json": None, "rank7.json": None, "p.json": 2, "q.json": 2}.items():
        write(tmp_path / name, made_up(1) | {"distributedInfo": {"rank": rank}})
    assert list(load([tmp_path])) == [0, 1, "2 (p)", "2 (q)", 7]


def test_in_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(3):
        write(tmp_path / f"rank{rank}.json", made_up(rank) | {"distributedInfo": None})
    alone = [trace.events.ts.tolist() for trace in load([tmp_path]).values()]
    monkeypatch.setattr("workshop.profiles.traces.ranks.WORTH_A_PROCESS", 0)
    read_bytes: list[int] = []
    together = load([tmp_path], read_bytes.append)
    assert sum(read_bytes) == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert [trace.events.ts.tolist() for trace in together.values()] == alone
