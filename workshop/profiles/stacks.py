"""Reads what `py-spy record -f raw` writes: call stacks, and the number of samples of each.

A line is a stack, from the outermost frame to the innermost, and a count:

    process 7:"python train.py";thread (7): MainThread;main (train.py:61);Module.backward (torch/_tensor.py:630) 42

Processes are there with `-s`, each behind its parent; threads are there with `-t`. py-spy escapes nothing: a command
line may hold semicolons, quotes and line breaks; a path or a thread's name may hold brackets, colons and semicolons.
"""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TextIO

from workshop.errors import WorkshopError
from workshop.file_kind import wrong_kind
from workshop.runs.load_beside import busy_note

RECORD_AGAIN = "record one with workshop record py-spy -- python SCRIPT"


class Frame(NamedTuple):
    """A frame of a call stack; as a string, it reads as py-spy writes it."""

    name: str
    path: str
    """The path as py-spy shortens it: relative to the entry of `sys.path`; for native code, the library."""
    line: int | None = None
    """The line number; None where py-spy knows none: in native code, or with `--nolineno`."""

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{self.name} ({place})"


class Process(NamedTuple):
    """A process that was recorded; as a string, it reads as py-spy writes it."""

    pid: int
    command: str
    """The command line; empty if the process was starting or ending when py-spy asked for it."""

    def __str__(self) -> str:
        return f'process {self.pid}:"{self.command}"'


class Thread(NamedTuple):
    """A thread that was recorded; as a string, it reads as py-spy writes it."""

    id: str
    name: str = ""
    """The name that Python knows, if there is one."""

    def __str__(self) -> str:
        return f"thread ({self.id}): {self.name}" if self.name else f"thread ({self.id})"


@dataclass(frozen=True, slots=True)
class Stack:
    """A call stack with its number of samples; as a string, it is the line that py-spy writes."""

    frames: tuple[Frame, ...]
    """The frames, outermost first; none if Python had not started yet, or had already ended."""
    samples: int
    processes: tuple[Process, ...] = ()
    """The process that ran the frames, behind its ancestors, outermost first."""
    thread: Thread | None = None
    source: str = ""
    """The path of the file that the stack was read from."""

    def __str__(self) -> str:
        frames = [*self.processes, *([self.thread] if self.thread else []), *self.frames]
        return f"{';'.join(map(str, frames))} {self.samples}"


@dataclass(frozen=True)
class Recording:
    """The stacks of one or more files."""

    stacks: list[Stack]
    notes: list[str] = field(default_factory=list)
    """One sentence for each part of the files that could not be read, or was left out, and for each busy machine."""

    @cached_property
    def samples(self) -> int:
        """The number of samples in all stacks."""
        return sum(stack.samples for stack in self.stacks)

    @cached_property
    def sources(self) -> list[str]:
        """The files that the stacks were read from."""
        return sorted({stack.source for stack in self.stacks})


def read(path: Path) -> Recording:
    """Read a recording, which may be gzipped.

    Raises:
        WorkshopError: the file does not exist or is not a recording.
    """
    parser = _Parser()
    found, busy = parser.parse_file(path), busy_note(path)
    return Recording(found, [*parser.notes, *[f"{path.name}: {busy}"] * bool(busy)])


def parse(lines: Iterable[str], source: str = "") -> Recording:
    """Read a recording from its lines.

    Raises:
        WorkshopError: the lines are not a recording.
    """
    parser = _Parser()
    return Recording(parser.parse(lines, source), parser.notes)


_OTHER_FORMATS = (b"<?xml", b"<svg", b"<!DOCTYPE", b"{", b"[")
"""How files of the other formats that py-spy writes begin."""

_COMMAND_FOLLOWS = re.compile(r'process \d+:"')
_NEXT_PROCESS = re.compile(r'";(?=process \d+:")')
_PYTHON_FRAME = re.compile(r"([^\s();]+) \(([^()]+):([0-9]+)\)")
_THREAD = re.compile(r"thread \(([^()]*)\)(?:: (.*))?", re.DOTALL)


class _Parser:
    """Parses each distinct frame, and each distinct list of processes, only once: there are millions of them."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._frames: dict[str, Frame] = {}
        self._processes: dict[str, tuple[Process, ...]] = {}

    def parse_file(self, path: Path) -> list[Stack]:
        try:
            with path.open("rb") as file:
                start = file.read(512)
            if not start:
                raise WorkshopError(f"{path} is empty: py-spy took no sample; {RECORD_AGAIN}")
            if start.lstrip().startswith(_OTHER_FORMATS):
                raise WorkshopError(wrong_kind(path, "not a py-spy recording", "py-spy records with -f raw"))
            text: TextIO
            opened = gzip.open if start.startswith(b"\x1f\x8b") else open
            with opened(path, "rt", encoding="utf-8", errors="replace", newline="\n") as text:
                return self.parse(self._until_damaged(text, path), str(path))
        except FileNotFoundError:
            raise WorkshopError(f"there is no file {path}; {RECORD_AGAIN}") from None
        except OSError as error:
            raise WorkshopError(f"cannot read {path}: {error.strerror or error}") from error

    def _until_damaged(self, lines: TextIO, path: Path) -> Iterator[str]:
        """Yield the lines of a file as far as it can be decompressed."""
        try:
            yield from lines
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.notes.append(f"{path}: cut off or damaged, read as far as it could be unpacked")

    def parse(self, lines: Iterable[str], source: str) -> list[Stack]:
        stacks: list[Stack] = []
        skipped: list[int] = []
        begun, begun_at = "", 0
        for number, line in enumerate(lines, 1):
            # A command line may go on in the next line of the file. It does not if a process begins there.
            if begun and _COMMAND_FOLLOWS.match(line):
                skipped.append(begun_at)
                begun = ""
            if not begun:
                begun_at = number
            begun += line
            text = begun.rstrip("\r\n") if not begun.endswith('"\n') else begun[:-1]
            if text and (stack := self._stack(text, source)):
                stacks.append(stack)
            elif _COMMAND_FOLLOWS.match(begun):
                continue
            elif text:
                skipped.append(begun_at)
            begun = ""
        if begun:
            skipped.append(begun_at)
        if len(skipped) >= max(len(stacks), 1):
            raise WorkshopError(wrong_kind(Path(source or "this"), "not a py-spy recording", RECORD_AGAIN))
        if skipped:
            lines_are = f"{len(skipped)} line{'s' * (len(skipped) > 1)} skipped that cannot be read"
            self.notes.append(f"{source}: {lines_are}, the first of them line {skipped[0]}")
        return stacks

    def _stack(self, line: str, source: str) -> Stack | None:
        """Return the stack of a line, or None if the line is incomplete."""
        text, _, count = line.rpartition(" ")
        if not (count.isascii() and count.isdigit()):
            return None
        processes: tuple[Process, ...] = ()
        if text.startswith("process "):
            processes, text = self._split_processes(text)
            if not processes:
                return None
        thread: Thread | None = None
        frames: tuple[Frame, ...] | None = ()
        if text.startswith("thread ("):
            thread, frames = self._split_thread(text)
        elif text:
            frames = self._split_frames(text)
        if frames is None or not (processes or thread or frames):
            return None
        return Stack(frames, int(count), processes, thread, source)

    def _split_processes(self, text: str) -> tuple[tuple[Process, ...], str]:
        """Return the processes and the text behind them; no processes if the last command line has no end."""
        if text.endswith('"'):
            commands, rest = text[:-1], ""
        else:
            # Command lines hold `";` more often than paths do, so the last `";` ends the last command line.
            commands, end, rest = text.rpartition('";')
            if not end or _COMMAND_FOLLOWS.match(rest):
                return (), text
        processes = self._processes.get(commands)
        if processes is None:
            each = [process.removeprefix("process ").partition(':"') for process in _NEXT_PROCESS.split(commands)]
            if not all(pid.isdigit() for pid, _, _ in each):
                return (), text
            processes = self._processes[commands] = tuple(Process(int(pid), command) for pid, _, command in each)
        return processes, rest

    def _split_thread(self, text: str) -> tuple[Thread | None, tuple[Frame, ...] | None]:
        """Return the thread and the frames behind it; the thread's name ends where the rest can be read as frames."""
        ends = [at for at, character in enumerate(text) if character == ";"]
        found = ((end, frames) for end in ends if (frames := self._split_frames(text[end + 1 :])))
        end, frames = next(found, (len(text), ()))
        thread = _THREAD.fullmatch(text[:end])
        return (Thread(thread[1], thread[2] or ""), frames) if thread else (None, self._split_frames(text))

    def _split_frames(self, text: str) -> tuple[Frame, ...] | None:
        pieces = text.split(";")
        known = self._frames
        try:
            return tuple([known[piece] for piece in pieces])
        except KeyError:
            return self._join_frames(pieces)

    def _join_frames(self, pieces: list[str]) -> tuple[Frame, ...] | None:
        """Return the frames of pieces that were split at semicolons, some of which may belong to a path."""
        frames: list[Frame] = []
        start = 0
        while start < len(pieces):
            for end in range(start + 1, len(pieces) + 1):
                if frame := self._frame(";".join(pieces[start:end])):
                    break
            else:
                return None
            frames.append(frame)
            start = end
        return tuple(frames)

    def _frame(self, text: str) -> Frame | None:
        frame = self._frames.get(text) or _parse_frame(text)
        if frame:
            self._frames[text] = frame
        return frame


def _parse_frame(text: str) -> Frame | None:
    """Return the frame, or None if the text is not one whole frame."""
    if plain := _PYTHON_FRAME.fullmatch(text):
        return Frame(plain[1], plain[2], int(plain[3]))
    if " (" not in text or not text.endswith(")"):
        return None
    at = _start_of_path(text)
    if ";" in text[:at]:
        return None
    path, colon, line = text[at + 2 : -1].rpartition(":")
    if colon and line.isascii() and line.isdigit():
        return Frame(text[:at], path, int(line))
    return Frame(text[:at], text[at + 2 : -1])


def _start_of_path(text: str) -> int:
    """Return the index of the ` (` before the path: the one that the last bracket closes, else the first possible one.

    The name of a C++ function may hold brackets, always in pairs; a path may hold any.
    """
    depth = 0
    for at in range(len(text) - 1, 0, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            if text[at - 1] == " " and _is_balanced(text[: at - 1]):
                return at - 1
            break
    starts = [match.start() for match in re.finditer(r" \(", text)]
    return next((at for at in starts if _is_balanced(text[:at])), starts[0])


def _is_balanced(name: str) -> bool:
    return name.count("(") == name.count(")") and name.count("<") == name.count(">")
