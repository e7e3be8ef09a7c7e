"""From the bytes of a trace to its events, a block at a time. Of a damaged file, what can be read is read.

The JSON is decoded by msgspec into typed objects, which keeps a third of what is there and skips the rest.
"""

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from workshop.errors import WorkshopError

BLOCK_BYTES = 1 << 22
"""Of JSON, that are decoded at once: large enough for speed, small enough for memory."""

COMPRESSED_BYTES = 1 << 18
"""That are read at once."""

MOST_CUTS = 4
"""Tried from the end of a block, to find one between two events: one may lie inside of an event instead."""

GZIP = b"\x1f\x8b"

_EVENTS_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_BEHIND_EVENTS = re.compile(rb"\s*(?:,\s*(?=\")|(?=\}))")
MOST_ENDS = 1000
"""Closing brackets that are tried from the end of the file, to find that of the events."""

_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_NAME = re.compile(
    rb'("(?:name|cat)"\s*:\s*")(.*?)(?="\s*,\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:)', re.DOTALL
)
_NO_ESCAPE = re.compile(rb'\\(?![\\"/bfnrtu])|(?<!\\)"|[\x00-\x1f]')

Number = int | float | str | None


class TraceError(WorkshopError):
    """A trace that cannot be used."""


class Args(msgspec.Struct, gc=False, frozen=True):
    """What ties an event on a GPU to the call that launched it, as far as it was written. A stream may be "0x0"."""

    stream: Number = -1
    correlation: Number = -1
    device: Number = -1
    bytes: Number = 0


class Event(msgspec.Struct, gc=False):
    """One that lasts has a category and a duration. Times are in µs."""

    name: str = ""
    cat: str | None = None
    ts: int | float | None = None
    dur: int | float | None = None
    pid: Number = None
    tid: Number = None
    args: Args = Args()


class ExactEvent(Event, gc=False):
    """With times as they are written: a float would round those of long ago to quarters of a µs."""

    ts: Decimal | None = None  # type: ignore[assignment]
    dur: Decimal | None = None  # type: ignore[assignment]


class Document(msgspec.Struct):
    """What stands around the events."""

    traceEvents: list[Event] = []
    distributedInfo: Any = None
    script: Any = None
    """Of which it is, if `workshop record torch` made it."""

    def add(self, other: "Document") -> None:
        """What another piece of the same file says, too."""
        for name in self.__struct_fields__[1:]:
            if getattr(other, name) is not None:
                setattr(self, name, getattr(other, name))


_list_of_events = msgspec.json.Decoder(list[Event])
_list_of_exact_events = msgspec.json.Decoder(list[ExactEvent])
_document = msgspec.json.Decoder(Document)


class Decoder:
    """The events of a file, in the order in which they stand there.

    Args:
        path: a trace, also compressed with gzip.
        exact: times as they are written, as `Decimal`.
    """

    def __init__(self, path: Path, exact: bool = False) -> None:
        self.path = path
        self.about = Document()
        """Complete when all events have been read."""
        self.lost = 0
        """Events that could not be read."""
        self.cut = False
        """Whether the file ends too early."""
        self._decode_list: msgspec.json.Decoder[Any] = _list_of_exact_events if exact else _list_of_events

    def __iter__(self) -> Iterator[list[Event]]:
        """The events, some at a time.

        Raises:
            TraceError: there are none.
            OSError: the file cannot be read.
        """
        with self.path.open("rb") as file:
            blocks = self._blocks(file)
            data = bytearray(b"[")
            data += self._begin(blocks)
            for block in blocks:
                data += block
                events, data = self._first_events(data)
                yield from events
            yield from self._last_events(bytes(data[1:]))

    def _blocks(self, file: BinaryIO) -> Iterator[bytes]:
        first = file.read(COMPRESSED_BYTES)
        if first.startswith(GZIP):
            return self._decompressed(chain([first], iter(lambda: file.read(COMPRESSED_BYTES), b"")))
        return chain([first] if first else [], iter(lambda: file.read(BLOCK_BYTES), b""))

    def _decompressed(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """Not with the gzip module: it keeps nothing of the last block of a file that was cut off."""
        unzip, self.cut = zlib.decompressobj(wbits=31), True
        for block in blocks:
            while block:
                try:
                    yield unzip.decompress(block, BLOCK_BYTES)
                except zlib.error:
                    self.cut = True
                    return
                self.cut = not unzip.eof
                block = unzip.unconsumed_tail
                if unzip.eof:  # another one may follow in the same file
                    block = unzip.unused_data.lstrip(b"\0")
                    unzip = zlib.decompressobj(wbits=31)

    def _begin(self, blocks: Iterator[bytes]) -> bytes:
        """Read what stands before the events, and return what stands behind their opening bracket."""
        read = b""
        for block in blocks:
            read += block
            if found := _EVENTS_BEGIN.search(read):
                self._read_about(read[: found.start()].rstrip().removesuffix(b",") + b"}")
                return read[found.end() :]
        if not read:
            raise TraceError(f"{self.path} is empty")
        if read.lstrip().startswith(b"["):  # what other tools write: events, and nothing around them
            return read.lstrip()[1:]
        raise TraceError(f"{self.path} is no trace of torch.profiler: there are no traceEvents in it")

    def _first_events(self, data: bytearray) -> tuple[Iterator[list[Event]], bytearray]:
        """As many as there are whole ones, and what is left. Data begin with a bracket."""
        cuts = list(islice(_cuts(data), MOST_CUTS))
        for cut in cuts:
            data[cut + 1] = ord("]")  # in place of a comma: nothing is copied
            with suppress(msgspec.DecodeError, RecursionError), memoryview(data) as view:
                events = self._decode_list.decode(view[: cut + 2])
                return iter([events]), bytearray(b"[") + data[cut + 2 :]
            data[cut + 1] = ord(",")
        if not cuts or any(_ends(data)):
            return iter(()), data  # perhaps only what stands behind the events is in the way
        return self._salvaged(bytes(data[1 : cuts[0] + 1])), bytearray(b"[") + data[cuts[0] + 2 :]

    def _last_events(self, data: bytes) -> Iterator[list[Event]]:
        """Up to the closing bracket, and what stands behind it."""
        for end, behind in islice(_ends(data), MOST_ENDS):
            if self._read_about(b"{" + data[behind:]):
                data = data[:end]
                break
        else:
            whole = data.rstrip()
            if whole.endswith(b"]"):
                data = whole[:-1]
            else:
                self.cut = True
        if data.strip():
            yield from self._salvaged(data.rstrip().rstrip(b","))

    def _read_about(self, data: bytes) -> bool:
        try:
            self.about.add(_document.decode(data))
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    def _salvaged(self, data: bytes) -> Iterator[list[Event]]:
        """By halves: the whole, if it is sound, and no more than the unsound pieces of it one by one."""
        waiting = [data]
        while waiting:
            piece = waiting.pop()
            try:
                yield self._decode_list.decode(b"[" + piece + b"]")
                continue
            except (msgspec.DecodeError, RecursionError):
                pass
            found = _BETWEEN.search(piece, len(piece) // 2) or _BETWEEN.search(piece)
            if found:
                waiting += [piece[found.end() - 1 :], piece[: found.start() + 1]]
            elif event := self._mended(piece):
                yield [event]
            else:
                self.lost += 1

    def _mended(self, piece: bytes) -> Event | None:
        """An event with a name that was written as it is, quotes and all, or with values of types nobody expects."""
        for data in (piece, _NAME.sub(_escaped, piece.decode("utf-8", "replace").encode())):
            try:
                return _as_event(msgspec.json.decode(data))
            except (msgspec.DecodeError, RecursionError, TypeError, ValueError, OverflowError):
                continue
        return None


def _cuts(data: bytearray) -> Iterator[int]:
    """Where one event may end and the next begin, from the end."""
    cut = len(data)
    while (cut := data.rfind(b"},", 0, cut)) >= 0:
        if data[cut + 2 : cut + 64].lstrip().startswith(b"{"):
            yield cut


def _ends(data: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Where the events may end, and what stands behind them begin, from the end."""
    end = len(data)
    while (end := data.rfind(b"]", 0, end)) >= 0:
        behind = _BEHIND_EVENTS.match(data, end + 1)
        if behind and data[max(end - 64, 0) : end].rstrip()[-1:] in (b"}", b"[", b""):
            yield end, behind.end()


def _escaped(found: re.Match[bytes]) -> bytes:
    def escape(odd: re.Match[bytes]) -> bytes:
        return b"\\" + odd[0] if odd[0] in b'\\"' else b"\\u%04x" % ord(odd[0])

    return found[1] + _NO_ESCAPE.sub(escape, found[2])


def _as_event(values: dict[str, Any]) -> Event:
    """From whatever types.

    Raises:
        TypeError: it is no object.
        ValueError: a time is no number.
        OverflowError: a time is beyond all numbers.
    """
    if not isinstance(values, dict):
        raise TypeError("an event is an object")
    args = values.get("args")
    event = Event(str(values.get("name", "")), None if values.get("cat") is None else str(values["cat"]))
    event.ts, event.dur = (None if values.get(key) is None else float(values[key]) for key in ("ts", "dur"))
    event.pid, event.tid = (str(values.get(key)) for key in ("pid", "tid"))
    if isinstance(args, dict):
        numbers = {key: args[key] for key in Args.__struct_fields__ if isinstance(args.get(key), int | float | str)}
        event.args = Args(**numbers)
    return event
