"""The file of verdicts: all that is kept is read again, and neither a full disk nor another process tears a line."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kept_example import KEPT, LINES, MEMORY

from workshop.course import kept_checks
from workshop.course.state import State
from workshop.judge.verdict import NotLookedAt, Outcome


def test_what_is_kept_is_read_again_by_date(tmp_path: Path) -> None:
    later = replace(KEPT, at="2030-05-04T09:20:31+01:00", outcome=Outcome.BROKEN, speed=None, timing=None, load=None)
    full = replace(KEPT, lines=LINES, memory=MEMORY, not_looked_at=NotLookedAt("cpu", ("pin_memory",)))
    for each in (later, full):
        kept_checks.keep(State(tmp_path), each)
    assert kept_checks.read(State(tmp_path)) == [full, later]


def test_nothing_was_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kept_checks.read(State(tmp_path)) == []
    assert capsys.readouterr() == ("", "")


def test_a_damaged_line_is_left_out_with_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept_checks.keep(State(tmp_path), KEPT)
    path = tmp_path / ".workshop" / "checks.jsonl"
    whole = path.read_bytes()
    without_zone = whole.replace(b"+02:00", b"")
    of_later_version = whole.replace(b'{"schema', b'{"new": 1, "schema').replace(
        b'"usable_cores"', b'"x":1,"usable_cores"'
    )
    path.write_bytes(whole + b"[1]\n" + without_zone + b"\xff\n" + of_later_version + whole[:100])
    kept_checks.keep(State(tmp_path), KEPT)  # it begins a line of its own, below the torn one
    assert kept_checks.read(State(tmp_path)) == [KEPT] * 3
    assert re.search(r"checks\.jsonl: lines 2, 3, 4, 6 are damaged, and left out\n$", capsys.readouterr().err)


APPEND = """
import resource, signal, sys
from pathlib import Path
from workshop.course import kept_checks
from workshop.course.state import State
from kept_example import KEPT

times, most_bytes = map(int, sys.argv[1:])
if most_bytes:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
for _ in range(times):
    kept_checks.keep(State(Path()), KEPT)
"""


def append(folder: Path, times: int, most_bytes: int = 0) -> "subprocess.Popen[str]":
    """Keep a check some times, in a process that may write files of some size only."""
    path = os.pathsep.join(map(str, Path(__file__).parents[1:3]))
    command = [sys.executable, "-c", APPEND, str(times), str(most_bytes)]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def test_without_room_nothing_is_torn_and_one_line_says_so(tmp_path: Path) -> None:
    kept_checks.keep(State(tmp_path), KEPT)
    path = tmp_path / ".workshop" / "checks.jsonl"
    size = path.stat().st_size
    process = append(tmp_path, 2, most_bytes=size * 3 // 2)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said == 2 * "cannot keep this verdict in .workshop/checks.jsonl: File too large\n"
    assert path.stat().st_size == size


def test_processes_that_write_at_once_do_not_mix_their_lines(tmp_path: Path) -> None:
    processes = [append(tmp_path, 50) for _ in range(3)]
    assert [process.communicate(timeout=60)[1] for process in processes] == [""] * 3
    assert kept_checks.read(State(tmp_path)) == [KEPT] * 150


def test_where_no_folder_can_be_made_one_line_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".workshop").write_text("in the way")
    kept_checks.keep(State(tmp_path / "deeper"), KEPT)
    assert "checks.jsonl: No such file or directory\n" in capsys.readouterr().err
