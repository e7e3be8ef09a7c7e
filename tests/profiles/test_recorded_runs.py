"""A folder with the recordings of several runs is not one run."""

import os
from pathlib import Path

import pytest

from workshop.errors import WorkshopError
from workshop.profiles import recorded_runs


def write(path: Path, script: str, samples: int, age: int) -> Path:
    """Write a recording of a script, so many seconds old."""
    path.write_text(f'process 7:"python {script}";<module> ({script}:9);main ({script}:5) {samples}\n')
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def test_the_files_of_one_run_are_read_together(tmp_path: Path) -> None:
    files = [write(tmp_path / f"profile_node{node}.raw", "train.py", 10, node) for node in (0, 1)]
    (tmp_path / ".profile_node2.raw.partial").write_text("")
    (tmp_path / "flamegraph.html").write_text("<!DOCTYPE html>")
    found = recorded_runs.read(tmp_path)
    assert (found.samples, found.sources) == (20, [str(file) for file in files])
    [note] = found.notes
    assert note.startswith("left out: ")
    assert recorded_runs.read(*files).samples == 20


def test_of_several_runs_the_newest_is_read_or_that_of_a_script_by_name(tmp_path: Path) -> None:
    write(tmp_path / "profile.raw", "train.py", 1, age=30)
    write(tmp_path / "profile-2.raw", "train.py", 2, age=20)
    write(tmp_path / "profile-3.raw", "lattice.py", 4, age=10)
    found = recorded_runs.read(tmp_path)
    assert found.samples == 4
    assert found.notes == [
        f"{tmp_path} has recordings of several runs; this is profile-3.raw of lattice.py, the newest. "
        "To read another, name its file: profile-2.raw of train.py, profile.raw of train.py"
    ]
    by_name = recorded_runs.read(tmp_path, library="train")
    assert by_name.samples == 2
    assert "this is profile-2.raw of train.py, the newest of that script" in by_name.notes[0]
    assert recorded_runs.read(tmp_path, library="torch").samples == 4, "no script, but a library within"
    assert recorded_runs.read(tmp_path / "profile.raw", tmp_path / "profile-3.raw").samples == 5, "as asked for"


def test_what_other_recorders_have_written_is_told_apart_by_script(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"job17_{number}.txt", "train.py", 1, age=number)
    assert recorded_runs.read(tmp_path).samples == 3
    write(tmp_path / "before.raw", "train.py", 7, age=9)
    assert recorded_runs.read(tmp_path).samples == 3, "the newest"
    write(tmp_path / "profile.raw", "train.py", 9, age=-9)
    assert recorded_runs.read(tmp_path).samples == 9


def test_a_folder_without_recordings(tmp_path: Path) -> None:
    with pytest.raises(WorkshopError, match="there is no py-spy recording in"):
        recorded_runs.read(tmp_path)
    with pytest.raises(WorkshopError, match="there is no file"):
        recorded_runs.read(tmp_path / "nowhere.raw")
