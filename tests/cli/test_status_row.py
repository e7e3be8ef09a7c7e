"""Commands in a real terminal: something changes every two seconds, and a script's output is untouched."""

import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import pexpect
import pytest

MAX_GAP_S = 3.0
"""The largest time between two changes of the screen: drawn each second, on a machine that others use as well."""

SILENT = """
import sys, time

def main():
    print("begin", end="", flush=True)
    time.sleep({seconds})
    print(" and end")

main()
"""

TRAINS = """
import time, torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
time.sleep(4.0)
while True:
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    time.sleep(0.05)
"""

COMPARED = """
import time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
data = TensorDataset(torch.randn(12, 2), torch.randn(12, 1))
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
while True:
    for inputs, targets in DataLoader(data, 4, shuffle=True):
        time.sleep({sleep_s})
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""

SEQUENCES = re.compile("\x1b7.*?\x1b8|\x1bD|\x1b\\[1A", re.DOTALL)
"""What a status row writes."""


class Screen:
    """A command in a terminal: all that it has written, and the largest time between two changes."""

    def __init__(self, folder: Path, *arguments: str, rows: int = 24, **environment: str) -> None:
        self.terminal = pexpect.spawn(
            sys.executable,
            ["-m", "workshop", *arguments],
            cwd=str(folder),
            env=os.environ | {"TERM": "xterm"} | environment,
            encoding="utf-8",
            dimensions=(rows, 80),
            # A shell starts what it puts in the background deaf to Ctrl-C, and that is inherited.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.text, self.max_gap_s, self._changed_s = "", 0.0, time.monotonic()

    def read(self, until: str = "", timeout_s: float = 60.0) -> "Screen":
        """Read until the command ends, or has written a text."""
        give_up = time.monotonic() + timeout_s
        while time.monotonic() < give_up and not (until and until in self.text):
            try:
                added = self.terminal.read_nonblocking(4096, timeout=0.1)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                break
            now = time.monotonic()
            self.text += added
            self.max_gap_s, self._changed_s = max(self.max_gap_s, now - self._changed_s), now
        return self


def silent(folder: Path, seconds: float) -> str:
    """Write a script that prints the two halves of a line, and nothing between them for some seconds."""
    (folder / "silent.py").write_text(SILENT.format(seconds=seconds))
    return "silent.py"


@pytest.mark.parametrize("seconds", [4.0, pytest.param(12.0, marks=pytest.mark.slow)])
def test_a_recorder_shows_that_it_runs_and_gives_the_row_back(tmp_path: Path, seconds: float) -> None:
    screen = Screen(tmp_path, "record", "lines", "--", silent(tmp_path, seconds)).read()
    assert screen.max_gap_s <= MAX_GAP_S
    assert "record lines: 2 s, 1 process; Ctrl-C ends it" in screen.text
    assert "\x1b[1;23r" in screen.text, "the rows above the last one scroll"
    *_, last = SEQUENCES.findall(screen.text)
    assert last.startswith("\x1b7\x1b[r\x1b[24;1H"), "all rows scroll again"
    assert "Ctrl-C" not in last
    assert "begin and end\r\n" in SEQUENCES.sub("", screen.text), "the row leaves the cursor where it was"
    assert "\x1b" not in SEQUENCES.sub("", screen.text)


def test_the_row_moves_with_the_window_and_is_gone_after_ctrl_c(tmp_path: Path) -> None:
    screen = Screen(tmp_path, "record", "lines", "--", silent(tmp_path, 30.0)).read(until="\x1b[24;1H")
    screen.terminal.setwinsize(40, 100)
    screen.read(until="\x1b[40;1H")
    assert "\x1b[1;39r" in screen.text
    screen.terminal.setwinsize(8, 100)
    screen.read(until="\x1b7\x1b[r\x1b[40;1H")
    begin = len(screen.text)
    time.sleep(1.5)
    screen.terminal.kill(signal.SIGINT)
    screen.terminal.sendintr()
    screen.read()
    assert ";1H" not in screen.text[begin:], "a low terminal has no row for it"


@pytest.mark.parametrize("environment", [{"rows": 9}, pytest.param({"TERM": "dumb"}, marks=pytest.mark.slow)])
def test_where_there_is_no_room_nothing_is_shown(tmp_path: Path, environment: dict) -> None:
    screen = Screen(tmp_path, "record", "lines", "--", silent(tmp_path, 2.5), **environment).read()
    assert "begin and end\r\n" in screen.text
    assert "\x1b" not in screen.text


@pytest.mark.slow
def test_a_measurement_shows_that_it_runs(tmp_path: Path) -> None:
    (tmp_path / "trains.py").write_text(TRAINS)
    screen = Screen(tmp_path, "measure", "--seconds", "1", "--no-headroom", "trains.py").read()
    assert "steps of" in screen.text
    assert screen.max_gap_s <= MAX_GAP_S


@pytest.mark.slow
def test_a_comparison_shows_that_it_runs(tmp_path: Path) -> None:
    for name, sleep_s in (("old.py", 0.2), ("new.py", 0.05)):
        (tmp_path / name).write_text(COMPARED.format(sleep_s=sleep_s))
    screen = Screen(tmp_path, "compare", "old.py", "new.py").read(timeout_s=150.0)
    assert "racing, epoch by epoch" in screen.text
    assert "new.py: done" in screen.text
    assert screen.max_gap_s <= MAX_GAP_S


@pytest.mark.slow
@pytest.mark.parametrize(("part", "answer"), [("part1", ["none"]), ("part3", []), ("part6", [])])
def test_a_check_shows_that_it_runs(part: str, answer: list[str], project: Path, data: Path, tmp_path: Path) -> None:
    shutil.copy(project / "solutions" / f"{part}.py", tmp_path / "train.py")
    options = [part, *answer, "--data", str(data), "--device", "cpu"]
    screen = Screen(tmp_path, "check", *options).read(timeout_s=240.0)
    assert f"{part}: done" in re.sub(r"\x1b\[[\d;]*m", "", screen.text)
    assert screen.max_gap_s <= MAX_GAP_S


STOPPED = """
from workshop.errors import plain_errors

def main():
    for _ in range(100):
        print("begun", flush=True)
        sum(range(5_000_000))

with plain_errors():
    main()
"""


@pytest.mark.parametrize("recorder", [("lines", "--"), ("py-spy", "--", sys.executable)])
def test_ctrl_c_is_said_once(tmp_path: Path, recorder: tuple[str, ...]) -> None:
    (tmp_path / "stopped.py").write_text(STOPPED)
    screen = Screen(tmp_path, "record", *recorder, "stopped.py").read(until="begun")
    time.sleep(1.5)
    screen.terminal.sendintr()
    screen.read()
    screen.terminal.close()
    assert screen.text.count("stopped by Ctrl-C") == 1
    if recorder[0] == "lines":
        assert "The lines of 2 functions in 1 process" in screen.text
    assert screen.terminal.exitstatus == 130
