"""The line of progress: in a terminal something changes at least every two seconds, however long a wait is."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pexpect
import pytest

from workshop.cli import output
from workshop.cli.output import CLEAR_LINE, ask, progress_line
from workshop.terminal import Count


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True

    @property
    def line(self) -> str:
        """What stands in its last line."""
        return self.getvalue().rpartition(CLEAR_LINE)[2]


def test_a_wait_is_counted_and_a_question_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now, ticks = [100.0], []

    @contextmanager
    def played(do: Callable[[], object], every_s: float) -> Iterator[None]:
        assert every_s <= 2
        ticks.append(do)
        yield

    def after(seconds: float) -> str:
        now[0] += seconds
        ticks[0]()
        return terminal.line

    def answer(_: str) -> str:
        before = terminal.getvalue()
        after(2.5)
        assert terminal.getvalue() == before, "nothing is drawn over the question"
        return "it"

    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output, "again_and_again", played)
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("builtins.input", answer)
    with progress_line() as show:
        show("a text that is too long for a terminal of forty columns, and is cut")
        assert terminal.line.endswith(" \N{HORIZONTAL ELLIPSIS}")
        assert after(2.0).endswith("(for 2 s)")
        assert len(terminal.line) < 40
        show("another")
        assert terminal.line == "another"
        assert after(1.0) == "another (for 1 s)"
        assert ask("what is it?") == "it"
        assert "what is it?" in terminal.line
        assert after(1.0).startswith("another (for "), "it goes on"
    assert terminal.line == ""


def test_in_a_log_a_count_is_a_line_each_half_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with progress_line() as show:
        show("racing")
        for pair in range(1, 31):
            now[0] += 2.0
            show(Count(f"pair {pair}"))
        show("the end")
    assert capsys.readouterr().err.splitlines() == ["racing", "pair 15", "pair 30", "the end"]


SAYS = """
from workshop.cli.output import say
say("a note that is too long for forty columns is broken between words\\n    a/command/is/not --broken however/long")
"""


def test_a_note_is_broken_between_words_and_a_command_is_not(tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SAYS)
    environment = os.environ | {"COLUMNS": "40"}
    said = pexpect.run(f"{sys.executable} {tmp_path / 'says.py'}", env=environment, encoding="utf-8")
    assert said.splitlines() == [
        "a note that is too long for forty",
        "columns is broken between words",
        "    a/command/is/not --broken however/long",
    ]
