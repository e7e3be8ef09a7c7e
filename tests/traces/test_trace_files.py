"""Traces of several ranks."""

from pathlib import Path

import pytest
from made_traces import made_up, write

from workshop.traces.decoding import TraceError
from workshop.traces.trace_files import load


def test_a_folder_with_other_files_in_it(tmp_path: Path) -> None:
    write(tmp_path / "b.json.gz", made_up(1) | {"distributedInfo": {"rank": 1}})
    write(tmp_path / "a.json", made_up(2) | {"distributedInfo": {"rank": 0}})
    write(tmp_path / "notes.json", "{}")
    write(tmp_path / "readme.txt", "no trace")
    found = load([tmp_path])
    assert list(found) == [0, 1]
    [note] = found.notes
    assert note.startswith(f"passed over: {tmp_path / 'notes.json'}")
    with pytest.raises(TraceError, match="is no trace of torch"):
        load([tmp_path / "a.json", tmp_path / "notes.json"])


def test_no_rank_is_lost_to_another(tmp_path: Path) -> None:
    for name, rank in {"x.json": None, "y.json": None, "rank7.json": None, "p.json": 2, "q.json": 2}.items():
        write(tmp_path / name, made_up(1) | {"distributedInfo": {"rank": rank}})
    assert list(load([tmp_path])) == [0, 1, "2 (p)", "2 (q)", 7]


def test_files_with_one_stem_or_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        for name in ("rank0.json", "rank0.pt.trace.json"):
            write(tmp_path / folder / name, made_up(0) | {"distributedInfo": None})
    assert list(load([tmp_path / "one"])) == ["0 (rank0.json)", "0 (rank0.pt.trace.json)"]
    same = [tmp_path / folder / "rank0.json" for folder in ("one", "other")]
    assert list(load(same)) == ["0 (one/rank0.json)", "0 (other/rank0.json)"]
    assert list(load([same[0], same[0]])) == [0], "a file that is named twice is one"


def test_a_list_without_times_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", made_up(0) | {"distributedInfo": None})
    write(tmp_path / "labels.json", [{"image": "a.jpg", "label": 3}])
    found = load([tmp_path])
    assert list(found) == [0]
    assert "labels.json is no trace: it is a list, and nothing in it has a time" in found.notes[0]


def test_in_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(3):
        write(tmp_path / f"rank{rank}.json", made_up(rank) | {"distributedInfo": None})
    alone = [trace.events.ts.tolist() for trace in load([tmp_path]).values()]
    monkeypatch.setattr("workshop.traces.trace_files.MIN_BYTES_FOR_PROCESSES", 0)
    told: list[tuple[int, int]] = []
    together = load([tmp_path], lambda *sizes: told.append(sizes))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert (len(told), told[0], told[-1]) == (4, (0, total), (total, total))
    assert [trace.events.ts.tolist() for trace in together.values()] == alone
