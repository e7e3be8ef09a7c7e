"""Checks of many people on one machine take turns, in the order in which they came."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Queue
from threading import Event, Thread

import pytest

from workshop.errors import WorkshopError
from workshop.runs import check_queue
from workshop.runs.check_queue import CORES_VARIABLE, FOLDER_VARIABLE, places, turn

PATIENCE_S = 60.0


class Check:
    """A check in a thread: each draws its own number and has its own locks, as a process has."""

    def __init__(self, leaves: bool = False) -> None:
        self._told: Queue[str] = Queue()
        self._over = Event()
        self._leaves = leaves
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def said(self) -> str:
        """What it says next."""
        return self._told.get(timeout=PATIENCE_S)

    def end(self) -> None:
        """Have the check come to its end."""
        self._over.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        with suppress(KeyboardInterrupt), turn(self._say):
            self._told.put(" ".join(map(str, ["runs", *sorted(os.sched_getaffinity(0))])))
            self._over.wait(PATIENCE_S)

    def _say(self, text: str) -> None:
        self._told.put(text)
        if self._leaves:
            raise KeyboardInterrupt


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "line"
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    monkeypatch.setattr(check_queue, "LOOK_EVERY_S", 0.01)
    return folder


@pytest.fixture
def check() -> Iterator[Callable[..., Check]]:
    started: list[Check] = []

    def start(leaves: bool = False) -> Check:
        started.append(Check(leaves))
        return started[-1]

    yield start
    for each in started:  # in the order in which they came: who waits cannot end
        each.end()


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


def test_turns_are_in_the_order_of_coming_and_the_number_is_shown(line: Path, check: Callable[..., Check]) -> None:
    first = check()
    assert first.said().startswith("runs")
    others = []
    for number in (1, 2, 3):
        others.append(check())
        assert others[-1].said() == f"number {number} in line for this machine: others are being checked"
    first.end()
    assert others[0].said().startswith("runs")
    assert others[1].said() == "number 1 in line for this machine: others are being checked"
    for each, following in zip(others, [*others[1:], None], strict=True):
        each.end()
        while following and not (text := following.said()).startswith("runs"):
            assert text.startswith("number")
    assert not list(line.glob("[0-9]*"))


def test_who_presses_ctrl_c_while_waiting_leaves_the_line(line: Path, check: Callable[..., Check]) -> None:
    first = check()
    assert first.said().startswith("runs")
    left = check(leaves=True)
    assert left.said().startswith("number 1")
    left.end()
    assert check().said().startswith("number 1")


CHECK = """
from workshop.runs.check_queue import turn
with turn(lambda text: print(text, flush=True)):
    print("runs", flush=True)
    input()
"""


def test_who_is_killed_makes_room(line: Path, check: Callable[..., Check]) -> None:
    """A process that runs, and one that waits."""
    with ExitStack() as stack:
        killed = []
        for says in ("runs", "number 1"):
            command = [sys.executable, "-c", CHECK]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            killed.append(stack.enter_context(process))
            stack.callback(process.kill)
            assert process.stdout
            assert process.stdout.readline().startswith(says)
        last = check()
        assert last.said().startswith("number 2")
        for process in reversed(killed):
            process.send_signal(signal.SIGKILL)
            process.wait()
        while (text := last.said()).startswith("number"):
            pass
        assert text.startswith("runs")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system pins no processes")
def test_with_cores_for_each_they_run_beside_each_other_on_their_own(
    line: Path, check: Callable[..., Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("there is one core")
    monkeypatch.setenv(CORES_VARIABLE, str(len(cores) // 2))
    ran = [check().said().split()[1:] for _ in range(2)]
    half = len(cores) // 2
    assert sorted(ran) == [[str(core) for core in cores[:half]], [str(core) for core in cores[half : 2 * half]]]
    assert check().said().startswith("number 1")


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
