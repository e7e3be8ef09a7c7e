"""Checks of many people on one machine take turns, in the order in which they came."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from workshop.errors import WorkshopError
from workshop.processes.waiting_line import CORES_VARIABLE, FOLDER_VARIABLE, places, turn

CHECK = """
import os, signal, sys
from workshop.processes.waiting_line import turn
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in what a shell starts in the background
with turn(lambda text: print(text, flush=True)):
    print("runs", *sorted(os.sched_getaffinity(0)), flush=True)
    sys.stdin.readline()
"""

Check = subprocess.Popen[str]


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "line"
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture
def check() -> Iterator[Callable[[], Check]]:
    with ExitStack() as stack:

        def start() -> Check:
            process = subprocess.Popen(
                [sys.executable, "-c", CHECK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield start


def said(check: Check) -> str:
    assert check.stdout
    return check.stdout.readline().strip()


def end(check: Check) -> None:
    check.communicate("\n", timeout=20)


def test_without_a_line_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    with turn(pytest.fail):
        pass


def test_what_else_is_in_the_folder_is_left_alone(line: Path) -> None:
    for name in ("1 copy", "0x", "notes"):
        (line / name).touch()
    with turn(pytest.fail):
        pass
    assert {"1 copy", "0x", "notes"} <= {path.name for path in line.iterdir()}


def test_turns_are_in_the_order_of_coming_and_the_number_is_shown(line: Path, check: Callable[[], Check]) -> None:
    first = check()
    assert said(first).startswith("runs")
    others = []
    for number in (1, 2, 3):
        others.append(check())
        assert said(others[-1]) == f"number {number} in line for this machine: others are being checked"
    end(first)
    assert said(others[0]).startswith("runs")
    assert said(others[1]) == "number 1 in line for this machine: others are being checked"
    for each, following in zip(others, [*others[1:], None], strict=True):
        end(each)
        while following and not (text := said(following)).startswith("runs"):
            assert text.startswith("number")
    assert not list(line.glob("[0-9]*"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_who_dies_while_waiting_is_skipped(line: Path, check: Callable[[], Check], number: int) -> None:
    first = check()
    said(first)
    second, third = check(), None
    said(second)
    third = check()
    said(third)
    second.send_signal(number)
    second.wait()
    end(first)
    text = said(third)
    while text.startswith("number"):
        text = said(third)
    assert text.startswith("runs")


def test_who_dies_while_running_makes_room(line: Path, check: Callable[[], Check]) -> None:
    first = check()
    said(first)
    second = check()
    said(second)
    first.kill()
    assert said(second).startswith("runs")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system pins no processes")
def test_with_cores_for_each_they_run_beside_each_other_on_their_own(
    line: Path, check: Callable[[], Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("there is one core")
    monkeypatch.setenv(CORES_VARIABLE, str(len(cores) // 2))
    ran = [said(each).split()[1:] for each in [check(), check()]]
    half = len(cores) // 2
    assert sorted(ran) == [[str(core) for core in cores[:half]], [str(core) for core in cores[half : 2 * half]]]
    assert said(check()).startswith("number 1")


def test_everybody_may_lock_the_files_and_nobody_else_write_them(line: Path) -> None:
    before = os.umask(0o077)
    try:
        with turn(pytest.fail):
            modes = {stat.S_IMODE(path.stat().st_mode) for path in line.iterdir()}
    finally:
        os.umask(before)
    assert modes == {0o644}


def test_a_line_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(WorkshopError, match="mkdir -m 1777"), turn(print):
        pass
    monkeypatch.setenv(CORES_VARIABLE, "0")
    with pytest.raises(WorkshopError, match="is no number of cores"):
        places()
