"""What `py-spy record -f raw` writes: call stacks, and how often each was seen.

A line is a stack, from the outermost frame to the innermost, and a count:

    process 7:"python train.py";thread (7): MainThread;main (train.py:61);Module.backward (torch/_tensor.py:630) 42

Processes are there with `-s`, each inside the one that started it; threads with `-t`. Nothing is escaped: a command
line may hold semicolons, quotes and line breaks, a path brackets, colons and semicolons, and so may a thread's name.
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

RECORD_AGAIN = "record one with workshop record py-spy -- python SCRIPT"


class Frame(NamedTuple):
    """A function that was being run."""

    name: str
    path: str
    """As py-spy has it: shortened to what follows the folder on Python's path; a library for native code."""
    line: int | None = None
    """None where py-spy knows none: native code, `--nolineno`."""

    def __str__(self) -> str:
        """As py-spy writes it."""
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{self.name} ({place})"


class Process(NamedTuple):
    """A process that was recorded."""

    pid: int
    command: str
    """Its command line, words joined by spaces. py-spy leaves it empty where it was too early or too late to see it."""

    def __str__(self) -> str:
        """As py-spy writes it."""
        return f'process {self.pid}:"{self.command}"'


class Thread(NamedTuple):
    """A thread that was recorded."""

    id: str
    name: str = ""
    """Empty for one that Python did not name."""

    def __str__(self) -> str:
        """As py-spy writes it."""
        return f"thread ({self.id}): {self.name}" if self.name else f"thread ({self.id})"


@dataclass(frozen=True, slots=True)
class Stack:
    """A call stack and how many samples found it."""

    frames: tuple[Frame, ...]
    """The outermost first. None at all where py-spy saw no Python yet, or no longer."""
    samples: int
    processes: tuple[Process, ...] = ()
    """The outermost first, the one that ran the frames last."""
    thread: Thread | None = None
    source: str = ""
    """Name of the file."""

    def __str__(self) -> str:
        """The line that py-spy writes."""
        frames = [*self.processes, *([self.thread] if self.thread else []), *self.frames]
        return f"{';'.join(map(str, frames))} {self.samples}"


@dataclass(frozen=True)
class Recording:
    """The stacks of one or more files."""

    stacks: list[Stack]
    damage: list[str] = field(default_factory=list)
    """What of the files could not be read, a sentence each."""

    @cached_property
    def samples(self) -> int:
        """In all."""
        return sum(stack.samples for stack in self.stacks)


def read(*paths: Path | str) -> Recording:
    """Read recordings, also gzipped ones. Of a folder, all that are in it.

    Raises:
        WorkshopError: there is no such file, or it is no recording.
    """
    stacks: list[Stack] = []
    damage: list[str] = []
    parser = _Parser()
    for path in map(Path, paths):
        if not path.is_dir():
            stacks += parser.parse_file(path, damage)
            continue
        before = len(stacks)
        for each in sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith(".")):
            try:
                stacks += parser.parse_file(each, damage)
            except WorkshopError as error:  # whatever else people keep in their folders
                damage.append(f"left out: {error}")
        if len(stacks) == before:
            raise WorkshopError(f"there is no py-spy recording in {path}; {RECORD_AGAIN}")
    return Recording(stacks, damage)


def parse(lines: Iterable[str], source: str = "") -> Recording:
    """The same of lines of text.

    Raises:
        WorkshopError: they are no recording.
    """
    damage: list[str] = []
    return Recording(_Parser().parse(lines, source, damage), damage)


_COMMAND_FOLLOWS = re.compile(r'process \d+:"')
_NEXT_PROCESS = re.compile(r'";(?=process \d+:")')
_PYTHON_FRAME = re.compile(r"([^\s();]+) \(([^()]+):([0-9]+)\)")
_THREAD = re.compile(r"thread \(([^()]*)\)(?:: (.*))?", re.DOTALL)


class _Parser:
    """Each distinct frame, and each distinct line of processes, is taken apart once: they come by the million."""

    def __init__(self) -> None:
        self._frames: dict[str, Frame] = {}
        self._processes: dict[str, tuple[Process, ...]] = {}

    def parse_file(self, path: Path, damage: list[str]) -> list[Stack]:
        try:
            with path.open("rb") as file:
                start = file.read(512)
            if not start:
                raise WorkshopError(f"{path} is empty: py-spy took no sample; {RECORD_AGAIN}")
            _refuse_other_formats(path, start)
            text: TextIO
            opened = gzip.open if start.startswith(b"\x1f\x8b") else open
            with opened(path, "rt", encoding="utf-8", errors="replace", newline="\n") as text:
                return self.parse(_until_broken(text, path, damage), str(path), damage)
        except FileNotFoundError:
            raise WorkshopError(f"there is no file {path}; {RECORD_AGAIN}") from None
        except OSError as error:
            raise WorkshopError(f"cannot read {path}: {error.strerror or error}") from error

    def parse(self, lines: Iterable[str], source: str, damage: list[str]) -> list[Stack]:
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
            if not text:
                begun = ""
                continue
            stack = self._stack(text, source)
            if stack:
                stacks.append(stack)
                begun = ""
            elif not _COMMAND_FOLLOWS.match(begun):
                skipped.append(begun_at)
                begun = ""
        if begun:
            skipped.append(begun_at)
        if len(skipped) >= max(len(stacks), 1):
            raise WorkshopError(f"{source or 'this'} is not a py-spy recording; {RECORD_AGAIN}")
        if skipped:
            lines_are = f"{len(skipped)} line{'s' * (len(skipped) > 1)} skipped that cannot be read"
            damage.append(f"{source}: {lines_are}, the first of them line {skipped[0]}")
        return stacks

    def _stack(self, line: str, source: str) -> Stack | None:
        """None for a line that is not whole."""
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
        """The processes, and what follows them. No processes if the last command line has no end."""
        if text.endswith('"'):
            commands, rest = text[:-1], ""
        else:
            # Command lines hold `";` more often than paths do: what follows the last of them is no longer theirs.
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
        """The thread and the frames behind it. Its name ends where what follows are frames."""
        end = text.find(";")
        while end >= 0:
            frames = self._split_frames(text[end + 1 :])
            if frames:
                break
            end = text.find(";", end + 1)
        else:
            frames = ()
        found = _THREAD.fullmatch(text if end < 0 else text[:end])
        return (Thread(found[1], found[2] or ""), frames) if found else (None, self._split_frames(text))

    def _split_frames(self, text: str) -> tuple[Frame, ...] | None:
        pieces = text.split(";")
        known = self._frames
        try:
            return tuple([known[piece] for piece in pieces])
        except KeyError:
            frames = [known.get(piece) or self._frame(piece) for piece in pieces]
        return self._join_frames(pieces) if None in frames else tuple(filter(None, frames))

    def _join_frames(self, pieces: list[str]) -> tuple[Frame, ...] | None:
        """The frames of pieces between semicolons, some of which may be parts of a path."""
        frames: list[Frame] = []
        while pieces:
            for end in range(1, len(pieces) + 1):
                if frame := self._frame(";".join(pieces[:end])):
                    break
            else:
                return None
            frames.append(frame)
            pieces = pieces[end:]
        return tuple(frames)

    def _frame(self, text: str) -> Frame | None:
        frame = self._frames.get(text) or _parse_frame(text)
        if frame:
            self._frames[text] = frame
        return frame


def _parse_frame(text: str) -> Frame | None:
    """None for what is no frame, or a part of one."""
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
    """Where the ` (` before the path is: the one that the last bracket closes, else the first that a name can end at.

    Names of C++ functions hold brackets, always in pairs; paths may hold any.
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


def _until_broken(lines: TextIO, path: Path, damage: list[str]) -> Iterator[str]:
    """The lines of a file, as far as it can be unpacked."""
    try:
        yield from lines
    except (EOFError, zlib.error, gzip.BadGzipFile):
        damage.append(f"{path}: cut off or damaged, read as far as it could be unpacked")


def _refuse_other_formats(path: Path, start: bytes) -> None:
    """Say so if it is one of the other files that py-spy writes."""
    text = start.lstrip()
    if text.startswith((b"<?xml", b"<svg", b"<!DOCTYPE")):
        raise WorkshopError(f"{path} is a drawing, not a recording; py-spy records with -f raw")
    if text.startswith((b"{", b"[")):
        raise WorkshopError(f"{path} is JSON, not a recording; py-spy records with -f raw")
