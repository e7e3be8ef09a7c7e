"""The line of progress: in a terminal something changes at least every two seconds, however long a wait is."""

import os
import re
import sys
from pathlib import Path

import pexpect
import pytest

WAITS = """
import time
from workshop.cli.output import ask, progress_line

with progress_line() as show:
    show("a text that is too long for a terminal of forty columns, and is cut")
    time.sleep(3.5)
    show("another")
    ask("what is it?")
    print("the end")
"""


@pytest.mark.slow
def test_a_wait_is_counted_and_a_question_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    environment = os.environ | {"COLUMNS": "40"}
    terminal = pexpect.spawn(sys.executable, [str(tmp_path / "waits.py")], env=environment, encoding="utf-8")
    terminal.expect(r"\(for 2 s\)")
    assert max(map(len, re.split(r"\r\x1b\[K", terminal.before))) < 40
    terminal.expect("what is it")
    asked_at = terminal.before
    assert "(for 3 s)" in asked_at
    terminal.expect("> ")
    assert terminal.expect([r"\x1b\[K", pexpect.TIMEOUT], timeout=2.5) == 1, "nothing is drawn over the question"
    terminal.sendline("it")
    terminal.expect("the end")
    terminal.expect(pexpect.EOF)
    assert terminal.before.endswith("\r\x1b[K")


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
