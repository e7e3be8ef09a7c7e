"""What a script writes, epoch by epoch, into the files that it holds open meanwhile, such as a table of its losses."""

import io
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

from workshop.probe.event_file import EventFile
from workshop.probe.events import LinesWritten
from workshop.probe.garbage import all_of

MAX_FILES, MAX_READ = 20, 2**20
"""Files, at most, that are looked at, and bytes, at most, of what an epoch has added, in which lines are counted."""

KINDS = (io.TextIOWrapper, io.BufferedRandom, io.BufferedWriter, io.FileIO)
"""The classes of files; each may hand on what is written to one of those behind it."""


@dataclass
class _Held:
    """A file that is open to be written."""

    file: io.FileIO
    path: str
    place: int
    """Where it goes on; as others may append to the same file, the end of it if it is one that is appended to."""

    def lines_from(self, begin: int) -> int:
        """Return the number of lines from a place in it on; of many bytes, an estimate."""
        number = os.open(self.path, os.O_RDONLY)
        try:
            read = os.pread(number, max(0, min(self.place - begin, MAX_READ)), begin)
        finally:
            os.close(number)
        return round(read.count(b"\n") * (self.place - begin) / max(len(read), 1))


class HeldFiles:
    """Notes how much was written to each file from the beginning of an epoch to its end.

    What the script's file objects keep in memory is written first. Nothing is noted of a file that is closed by then.
    """

    def __init__(self, events: EventFile, run_index: int) -> None:
        self._events, self._run_index = events, run_index
        self._objects: list[ref[Any]] = []
        self._begun = WeakKeyDictionary[io.FileIO, int]()  # the place in each file as the epoch began
        self._sizes: dict[str, int] = {}  # of files to which something is appended, as they were opened
        self._are_known = True  # all objects, as no file was opened since
        events.note_opened(self._on_open)

    def _on_open(self, path: str, mode: Any, flags: Any) -> None:
        self._are_known &= set(mode or "").isdisjoint("wax+")
        if "a" in (mode or ""):
            self._sizes[os.path.abspath(path)] = os.path.getsize(path)

    def begin(self) -> None:
        """An epoch begins. What was written before is none of it, as while the script has taken steps of others."""
        self._begun = WeakKeyDictionary({held.file: held.place for held in self._look()})

    def end(self, steps: int) -> None:
        """Note what was written in an epoch of so many steps."""
        for held in self._look():
            begin = self._begun.get(held.file, self._sizes.get(held.path, 0))
            with suppress(OSError):  # it has been removed
                about = {"lines": held.lines_from(begin), "size": held.place - begin, "steps": steps}
                name = os.path.basename(held.path)
                self._events.write(LinesWritten, name=name, **about, run_index=self._run_index)

    def _look(self) -> list[_Held]:
        """Return the files that are open to be written, up to `MAX_FILES`."""
        if not self._are_known:
            self._are_known = True
            self._objects = [ref(each) for each in all_of(*KINDS) if type(each) in KINDS]
        objects = [each for known in self._objects if (each := known()) is not None]
        found = []
        for each in sorted(objects, key=lambda each: KINDS.index(type(each))):
            with suppress(Exception):  # it is closed, or the disk is full, as the script will be told
                if isinstance(each.name, str) and each.writable() and stat.S_ISREG(os.fstat(each.fileno()).st_mode):
                    each.flush()
                    found += [_held(each)] if isinstance(each, io.FileIO) else []
        return found[:MAX_FILES]


def _held(file: io.FileIO) -> _Held:
    number = file.fileno()
    place = os.fstat(number).st_size if "a" in file.mode else os.lseek(number, 0, os.SEEK_CUR)
    return _Held(file, os.path.abspath(str(file.name)), place)
