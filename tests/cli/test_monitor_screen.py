"""The live picture of `workshop monitor`."""

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pexpect
import pytest
from conftest import Run
from rich.console import Console

from workshop.cli.monitor_screen import render, show
from workshop.runs.snapshot import START, Gpu, ProcessFigures, Snapshot, Watch

GPU = Gpu(0, "NVIDIA Something With A Rather Long Name", 45.0, 10 * 2**30, 140 * 2**30)
TRAINING = ProcessFigures(
    1_234_567, 0, "training", "running", "python train.py --of 'many words'" * 5, 99.0, 2**31, 1e6, 2**30
)
WORKERS = [
    replace(TRAINING, pid=1_234_568 + number, depth=1, role=f"worker {number}", status="sleeping", cpu_percent=None)
    for number in range(2)
]
SNAPSHOT = Snapshot((100.0,), 2**33, 2**34, None, 1e9, (), (TRAINING, *WORKERS))


def drawn(snapshot: Snapshot, width: int = 80) -> str:
    """The picture without colours, on a console that would show longer lines, too."""
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as capture:
        console.print(render(snapshot, width))
    return capture.get()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("cores", [1, 2, 16, 128])
@pytest.mark.parametrize("gpus", [(), (GPU, replace(GPU, index=1, busy_percent=None, memory_used_bytes=None))])
def test_the_picture_fits(gpus: tuple[Gpu, ...], cores: int, width: int) -> None:
    picture = drawn(replace(SNAPSHOT, cores_percent=(100.0,) * cores, gpus=gpus), width)
    assert max(map(len, picture.splitlines())) <= width
    assert len(picture.splitlines()) <= 30
    for words in ("cores", "memory", "disk", "training", "└ worker 0", "└ worker 1", "sleeping", "1234567"):
        assert words in picture
    assert picture.count("100%") == cores
    assert ("GPU MiB" in picture, picture.count("\nGPU ")) == (bool(gpus), len(gpus))
    assert "python" in picture.split("command")[1]


def test_without_a_run_it_says_how_to_start_one() -> None:
    assert f"Start the training in another terminal:\n  {START}" in drawn(replace(SNAPSHOT, processes=()))


def test_without_a_terminal_it_prints_one_picture() -> None:
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as capture:
        show(Watch([os.getpid()]), 0.1, once=False, console=console)
    assert capture.get().count("training") == 1
    assert "-%" not in capture.get()  # rates are there
    assert "\x1b" not in capture.get()


def test_as_json(workshop: Run) -> None:
    done = workshop("monitor", "--pid", str(os.getpid()), "--interval", "0.1", "--json")
    found = json.loads(done.stdout)
    assert (found["processes"][0]["pid"], found["processes"][0]["role"]) == (os.getpid(), "training")
    assert found["schema_version"] == 1


def test_ctrl_c_leaves_the_terminal_as_it_was(start: Callable[..., subprocess.Popen[str]]) -> None:
    ours, theirs = pty.openpty()
    shown = ""
    terminal = {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    options = ["--pid", str(os.getpid()), "--interval", "0.1"]
    with start("monitor", *options, environment=terminal, stdout=theirs) as process:
        os.close(theirs)
        while shown.count("training") < 3 and select.select([ours], [], [], 20)[0]:
            shown += os.read(ours, 4096).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # Linux reports the end of a terminal as an error
            while last := os.read(ours, 4096):
                shown += last.decode(errors="replace")
        complaint = process.communicate(timeout=60)[1]
    os.close(ours)
    assert process.returncode == 130
    assert complaint.endswith("stopped by Ctrl-C\n")
    assert "Traceback" not in complaint
    assert "\x1b[?1049h" in shown  # the other screen
    picture, left = shown.split("\x1b[?1049l")
    assert "training" in picture
    assert picture.rindex("\x1b[?25h") > picture.rindex("training")  # the cursor
    assert re.search(rf"Average of \d+ s\s+cores \d+ %.*{os.getpid()} training: cpu \d+ %", left, re.DOTALL)


def test_q_ends_it_and_averages_are_printed() -> None:
    command = f"{sys.executable} -m workshop monitor --pid {os.getpid()} --interval 0.1"
    with pexpect.spawn(command, dimensions=(24, 80), encoding="utf-8", timeout=20) as terminal:
        terminal.expect("q ends")
        terminal.send("q")
        terminal.expect("Average of")
        terminal.expect("training: cpu")
        terminal.expect(pexpect.EOF)
    assert terminal.exitstatus == 0
