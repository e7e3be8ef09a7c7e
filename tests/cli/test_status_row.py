"""Commands in a real terminal: something changes every two seconds, and a script's output is untouched."""

import os
import pty
import re
import shutil
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pexpect
import psutil
import pytest

from workshop.cli import status_row as module
from workshop.cli.status_row import ENDING, status_row

MAX_GAP_S = 3.0
"""The largest time between two changes of the screen: drawn each second, on a machine that others use as well."""

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


class Window:
    """A terminal in which nothing is drawn but the row, at times that a test says."""

    def __init__(self) -> None:
        self._ours, self._theirs = pty.openpty()
        self.file = os.fdopen(self._theirs, "w")
        self.now = 100.0
        self.draw: Callable[[], object] | None = None

    @contextmanager
    def again_and_again(self, do: Callable[[], object], every_s: float) -> Iterator[None]:
        assert every_s <= 2
        self.draw = do
        yield

    @contextmanager
    def recorder(self) -> Iterator[None]:
        """Show the row while the block runs."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stderr", self.file)
            with status_row("record lines"):
                yield

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self._theirs, (rows, columns))

    def drawn(self, after_s: float = 0.0) -> str:
        """What is written after some seconds."""
        self.now += after_s
        if after_s and self.draw:
            self.draw()
        os.write(self._theirs, b"#")
        text = b""
        while not text.endswith(b"#"):
            text += os.read(self._ours, 4096)
        return text.decode()[:-1]


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    """A window of 24 rows, and a recorder that runs a script below a shell."""
    window = Window()
    window.resize(24, 80)
    children = [SimpleNamespace(name=lambda name=name: name) for name in ("sh", "python")]
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(children=lambda recursive: children))
    monkeypatch.setattr(module, "again_and_again", window.again_and_again)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: window.now))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    yield window
    window.file.close()


def test_the_row_counts_the_seconds_and_moves_with_the_window(window: Window) -> None:
    with window.recorder():
        assert window.drawn() == ""
        text = window.drawn(after_s=2)
        assert "\x1b[1;23r\x1b[24;1H" in text, "the rows above the last one scroll"
        assert "record lines: 2 s, 1 process; Ctrl-C ends it" in text
        assert "record lines: 3 s" in window.drawn(after_s=1)
        window.resize(40, 20)
        text = window.drawn(after_s=1)
        assert "\x1b[1;39r\x1b[40;1H" in text
        assert "record lines: 4 s, " in text
        assert "record lines: 4 s, 1 p" not in text, "it is cut at the edge"
        window.resize(8, 100)
        assert window.drawn(after_s=1).startswith("\x1b7\x1b[r\x1b[40;1H"), "all rows scroll again"
        assert window.drawn(after_s=1) == "", "a low terminal has no row for it"
        window.resize(30, 80)
        window.drawn(after_s=1)
    assert window.drawn().startswith("\x1b7\x1b[r\x1b[30;1H")


def test_from_ctrl_c_on_the_row_says_that_it_is_being_ended(window: Window) -> None:
    with window.recorder():
        window.drawn(after_s=2)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert f"record lines: 2 s, 1 process; {ENDING}\x1b" in window.drawn(), "at once"
        assert f"record lines: 3 s, 1 process; {ENDING}\x1b" in window.drawn(after_s=1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_the_background_nothing_is_written(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)
    with window.recorder():
        assert window.drawn(after_s=2) == ""
    assert window.drawn() == ""


@pytest.mark.parametrize("variable", [("TERM", "dumb"), ("JPY_PARENT_PID", "7")])
def test_where_no_row_can_be_nothing_is_shown(
    variable: tuple[str, str], window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as in a notebook."""
    monkeypatch.setenv(*variable)
    with window.recorder():
        assert window.draw is None
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert window.drawn().strip() == ENDING, "a line says it"
    assert window.drawn() == ""


WAITS = """
import time
from pathlib import Path
from workshop.errors import plain_errors

def main():
    print("begin", end="", flush=True)
    while not Path("go").exists():
        time.sleep(0.05)
    print(" and end", flush=True)
    time.sleep(1000)

with plain_errors():
    main()
"""


def test_a_recorder_gives_the_row_back_and_ctrl_c_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    screen = Screen(tmp_path, "record", "lines", "--", "waits.py").read(until="begin").read(until="Ctrl-C ends it")
    (tmp_path / "go").touch()
    screen.read(until=" and end\r\n")
    screen.terminal.sendintr()
    screen.read()
    screen.terminal.close()
    assert screen.terminal.exitstatus == 130
    *_, last = SEQUENCES.findall(screen.text)
    assert last.startswith("\x1b7\x1b[r\x1b[24;1H"), "all rows scroll again"
    assert "Ctrl-C" not in last
    assert any(ENDING in row for row in SEQUENCES.findall(screen.text))
    plain = SEQUENCES.sub("", screen.text)
    assert "begin and end\r\n" in plain, "the row leaves the cursor where it was"
    assert "\x1b" not in plain
    assert (plain.count("stopped by Ctrl-C"), plain.count("ending it")) == (1, 0)
    assert "The lines of 2 functions in 1 process" in plain


@pytest.mark.slow
def test_a_measurement_shows_that_it_runs(tmp_path: Path) -> None:
    (tmp_path / "trains.py").write_text(TRAINS)
    screen = Screen(tmp_path, "measure", "--seconds", "1", "--no-headroom", "trains.py").read()
    assert "steps of" in screen.text
    assert re.search(r"\(for \d+ s\)", screen.text)


@pytest.mark.acceptance
def test_a_check_shows_that_it_runs(project: Path, data: Path, tmp_path: Path) -> None:
    shutil.copy(project / "solutions" / "part3.py", tmp_path / "train.py")
    screen = Screen(tmp_path, "check", "part3", "--data", str(data), "--device", "cpu").read(timeout_s=240.0)
    assert "part3: done" in re.sub(r"\x1b\[[\d;]*m", "", screen.text)
    assert screen.max_gap_s <= MAX_GAP_S
