"""Runs a command of the workshop for an agent: in a process of its own, for a limited time, with a short answer."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import uuid4

import anyio
import anyio.to_thread

from workshop.runs.process_tree import end, tree_of

MARK_VARIABLE = "WORKSHOP_COMMAND"
"""All processes of a command have this variable in their environment, by which they are found in the end."""

LOOK_EVERY_S = 0.1
END_S = 20.0
"""Seconds, at most, for a command that is told to end to end its scripts; then it is killed."""

MAX_CHARACTERS = 5500
"""Characters, at most, of an answer. A token of such text, with its figures and names, has about three, so this is less
than 2,000 tokens."""

_BARS = re.compile(r" *[█▏▎▍▌▋▊▉]+")


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended."""

    exit_code: int | None
    """None if its time was over."""
    output: str
    errors: str

    @property
    def last_error(self) -> str:
        """The last line that it printed to stderr."""
        return (self.errors.strip().splitlines() or ["it said nothing"])[-1]


async def run_command(arguments: Sequence[str], folder: Path, limit_s: float) -> CommandEnd:
    """Run `workshop` with arguments, without a shell, and end it after some time or when the call is cancelled.

    Args:
        arguments: those of the command.
        folder: the folder it runs in.
        limit_s: the seconds that it may take.
    """
    mark = uuid4().hex
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "workshop", *arguments],  # -P: no file of this folder stands in for a module
            cwd=folder,
            env={**os.environ, "NO_COLOR": "1", MARK_VARIABLE: mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            with anyio.move_on_after(limit_s):
                while process.poll() is None:
                    await anyio.sleep(LOOK_EVERY_S)
            code = process.poll()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, mark)
        return CommandEnd(code, _text(output), _text(errors))


async def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a command that still runs: told to, it ends what it has started; what is left is killed with it."""
    if process.poll() is None:
        process.terminate()
        with anyio.move_on_after(END_S):
            while process.poll() is None:
                await anyio.sleep(LOOK_EVERY_S)
    await anyio.to_thread.run_sync(lambda: end(lambda: tree_of(process, mark), grace_s=0))
    process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def page_of(text: str, number: int = 1) -> str:
    """Return a part of a text that is short enough for an answer, and say which one it is; bars are left out.

    Args:
        text: the text.
        number: the number of the part, from 1.
    """
    text = _BARS.sub("", text).strip()
    pages: list[str] = [""]
    for line in text.splitlines(keepends=True):
        for start in range(0, len(line), MAX_CHARACTERS):
            piece = line[start : start + MAX_CHARACTERS]
            if len(pages[-1]) + len(piece) > MAX_CHARACTERS:
                pages.append("")
            pages[-1] += piece
    number = min(max(number, 1), len(pages))
    more = (
        f"\n\n(page {number} of {len(pages)}; ask for the next with page={number + 1})" if number < len(pages) else ""
    )
    return pages[number - 1].rstrip() + more
