"""What a script writes to files that it holds open is seen after each epoch, also what it still keeps itself."""

import csv
from pathlib import Path
from typing import Any

import pytest

from workshop.judge.ledger import Ledger
from workshop.probe.event_file import EventFile
from workshop.probe.held_files import HeldFiles


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def amounts(notes: Path, name: str) -> list[tuple[int, int]]:
    """Lines and bytes of each epoch."""
    return [(each.lines, each.size) for each in Ledger.of(notes).written if each.name == name]


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "w", "buffering": 1},
        {"mode": "w"},
        {"mode": "a"},
        {"mode": "x+"},
        {"mode": "wb"},
        {"mode": "wb", "buffering": 0},
    ],
    ids=str,
)
def test_lines_are_counted_however_they_are_kept(options: dict[str, Any], tmp_path: Path, notes: Path) -> None:
    path = tmp_path / "table.csv"
    if options["mode"] == "a":
        path.write_text("of an earlier run\n")
    files = HeldFiles(EventFile(str(notes)), 0)
    with open(path, **options) as file:
        line = b"1,2\n" if "b" in options["mode"] else "1,2\n"
        for lines in 3, 0, 2:
            for _ in range(lines):
                file.write(line)
            files.end(steps=4)
            files.begin()
    assert amounts(notes, "table.csv") == [(3, 12), (0, 0), (2, 8)]
    assert {each.steps for each in Ledger.of(notes).written} == {4}


def test_what_others_write_to_the_same_file_is_theirs(tmp_path: Path, notes: Path) -> None:
    path = tmp_path / "log.txt"
    files = HeldFiles(EventFile(str(notes)), 0)
    with path.open("a") as file:
        files.begin()
        file.write("mine\n")
        files.end(steps=1)
        path.open("a").write("of the other script, while this one waits\n")
        files.begin()
        file.write("mine again\n")
        files.end(steps=1)
    assert amounts(notes, "log.txt") == [(1, 5), (1, 11)]


def test_what_is_written_while_steps_of_others_are_taken_does_not_count(tmp_path: Path, notes: Path) -> None:
    files = HeldFiles(EventFile(str(notes)), 0)
    with (tmp_path / "table.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([1])
        files.end(steps=1)
        table.writerows([[2], [3], [4]])
        files.begin()
        table.writerow([5])
        files.end(steps=1)
    assert amounts(notes, "table.csv") == [(1, 2), (1, 2)]


def test_files_that_are_closed_gone_or_only_read_do_no_harm(tmp_path: Path, notes: Path) -> None:
    files = HeldFiles(EventFile(str(notes)), 0)
    read, gone = tmp_path / "read.txt", tmp_path / "gone.txt"
    read.write_text("1\n2\n")
    closed = (tmp_path / "closed.txt").open("w")
    closed.write("1\n")
    closed.close()
    with read.open() as reading, gone.open("w") as file, open("/dev/null", "w") as nothing:
        reading.readline()
        nothing.write("1\n")
        file.write("1\n")
        gone.unlink()
        files.begin()
        file.write("2\n")
        files.end(steps=1)
        assert not {each.name for each in Ledger.of(notes).written} & {"read.txt", "closed.txt", "gone.txt", "null"}
        assert reading.readline() == "2\n"
