"""Decodes the bytes of a trace into events, block by block; of a damaged file, as many events as possible.

msgspec decodes the JSON into typed objects, which keep a third of what is there and skip the rest.
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
"""The number of bytes of JSON that are decoded at once: enough for speed, few enough for memory."""

COMPRESSED_BYTES = 1 << 18
"""The number of compressed bytes that are read at once."""

DAMAGED_BYTES = 256
"""The number of compressed bytes around damage that are lost."""

MAX_CUTS = 4
"""The number of places that are tried, from the end of a block, to find one that is between two events."""

MAX_ENDS = 1000
"""The number of brackets that are tried, from the end of the file, to find the one that closes the list of events."""

MAX_BETWEEN = 64
"""The number of bytes that `"traceEvents": [` takes at most, or the space in front of a bare list."""

GZIP = b"\x1f\x8b"
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_EVENTS_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_BEHIND_EVENTS = re.compile(rb"\s*(?:,\s*(?=\")|(?=\}))")
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_NAME = re.compile(
    rb'("(?:name|cat)"\s*:\s*")(.*?)(?="\s*,\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:)', re.DOTALL
)
_NOT_ESCAPED = re.compile(rb'\\(?![\\"/bfnrtu])|(?<!\\)"|[\x00-\x1f]')

Number = int | float | str | None


class TraceError(WorkshopError):
    """A trace that cannot be used."""


class Args(msgspec.Struct, gc=False, frozen=True):
    """The arguments of an event: its launch, its device, what it waits for or allocates. A stream may be "0x0"."""

    stream: Number = -1
    correlation: Number = -1
    device: Number = -1
    bytes: Number = 0
    bandwidth: Number = msgspec.field(default=None, name="memory bandwidth (GB/s)")
    waits_on: Number = msgspec.field(default=-1, name="wait_on_cuda_event_record_corr_id")
    waits_on_stream: Number = msgspec.field(default=-1, name="wait_on_stream")
    # Of an allocation, or of a release of memory:
    address: Number = msgspec.field(default=-1, name="Addr")
    size: Number = msgspec.field(default=0, name="Bytes")
    allocated: Number = msgspec.field(default=0, name="Total Allocated")
    reserved: Number = msgspec.field(default=0, name="Total Reserved")
    device_type: Number = msgspec.field(default=-1, name="Device Type")
    device_id: Number = msgspec.field(default=-1, name="Device Id")


class PlainEvent(msgspec.Struct, gc=False):
    """An event without its arguments, with times in µs; only one that lasts has a duration."""

    name: str = ""
    cat: str | None = None
    ts: int | float | None = None
    dur: int | float | None = None
    pid: Number = None
    tid: Number = None


class TraceEvent(PlainEvent, gc=False):
    """An event with its arguments."""

    args: Args = Args()


class ExactEvent(TraceEvent, gc=False):
    """An event whose times keep all digits: a float rounds µs since 1970 to quarters."""

    ts: Decimal | None = None  # type: ignore[assignment]
    dur: Decimal | None = None  # type: ignore[assignment]


class Document(msgspec.Struct):
    """The fields of a trace beside its events."""

    traceEvents: list[TraceEvent] = []
    distributedInfo: Any = None
    script: Any = None


_document = msgspec.json.Decoder(Document)


class Decoder:
    """Yields the events of a file in blocks, in the order of the file.

    Args:
        path: a trace, which may be gzipped.
        exact: whether times are decoded as `Decimal`.

    Attributes:
        about: the fields beside the events; complete once all events were read.
        lost: the number of events that could not be read.
        truncated: whether the file ends too early.
        is_list: whether the file is a bare list, which other programs write, too.
    """

    def __init__(self, path: Path, exact: bool) -> None:
        self.path = path
        self.about = Document()
        self.lost = 0
        self.truncated = False
        self.is_list = False
        event: Any = ExactEvent if exact else TraceEvent
        self._decode: Any = msgspec.json.Decoder(list[event]).decode

    def __iter__(self) -> Iterator[list[TraceEvent]]:
        """Yield the events, a block at a time.

        Raises:
            TraceError: the file has no events.
            OSError: the file cannot be read.
        """
        with self.path.open("rb") as file:
            blocks = self._blocks(file)
            data = bytearray(b"[" + self._begin(blocks))
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
        """Decompress without the gzip module, which loses the last block of a truncated file."""
        unzip, self.truncated = zlib.decompressobj(wbits=31), True
        for block in blocks:
            while block:
                before = unzip.copy()
                try:
                    yield unzip.decompress(block, BLOCK_BYTES)
                except zlib.error:
                    self.truncated = True
                    yield from _until_damage(before, block)
                    return
                self.truncated = not unzip.eof
                block = unzip.unconsumed_tail
                if unzip.eof:  # the file may have another gzip member
                    block = unzip.unused_data.lstrip(b"\0")
                    unzip = zlib.decompressobj(wbits=31)

    def _begin(self, blocks: Iterator[bytes]) -> bytes:
        """Read the fields before the events; return what was read behind the bracket that opens the events."""
        read = bytearray()
        for block in blocks:
            searched = max(len(read) - MAX_BETWEEN, 0)
            read += block
            if read[:MAX_BETWEEN].lstrip().startswith(b"["):  # other tools write a bare list of events
                self.is_list = True
                return bytes(read).lstrip()[1:]
            if found := _EVENTS_BEGIN.search(read, searched):
                begin, end = found.span()
                self._read_about(bytes(read[:begin]).rstrip().removesuffix(b",") + b"}")
                return bytes(read[end:])
        if not read:
            what = "damaged: nothing of it can be decompressed" if self.truncated else "empty"
            raise TraceError(f"{self.path} is {what}")
        raise TraceError(f"{self.path} is no trace of torch.profiler: there are no traceEvents in it")

    def _first_events(self, data: bytearray) -> tuple[Iterator[list[TraceEvent]], bytearray]:
        """Return the whole events in the data, which begin with a bracket, and the data that remain."""
        cuts = list(islice(_cuts(data), MAX_CUTS))
        for cut in cuts:
            data[cut + 1] = ord("]")  # in place of a comma: nothing is copied
            with suppress(*UNDECODABLE), memoryview(data) as view:
                events = self._decode(view[: cut + 2])
                return iter([events]), bytearray(b"[") + data[cut + 2 :]
            data[cut + 1] = ord(",")
        if not cuts or any(_ends(data)):
            return iter(()), data  # perhaps only the fields behind the events are in the way
        return self._salvaged(bytes(data[1 : cuts[0] + 1])), bytearray(b"[") + data[cuts[0] + 2 :]

    def _last_events(self, data: bytes) -> Iterator[list[TraceEvent]]:
        """Yield the events up to the closing bracket, and read the fields behind it."""
        end = None
        for found, behind in islice(_ends(data), MAX_ENDS):
            if self._read_about(b"{" + data[behind:]):
                with suppress(*UNDECODABLE):
                    yield self._decode(b"[" + data[:found] + b"]")
                    return
                end = end or found  # or a list among the fields ends here
        if end is None:
            self.truncated |= not data.rstrip().endswith(b"]")
            data = data.rstrip().removesuffix(b"]")
        data = data[:end].strip()
        if data:
            yield from self._salvaged(data.rstrip(b","))

    def _read_about(self, data: bytes) -> bool:
        try:
            found = _document.decode(data)
        except UNDECODABLE:
            return False
        if found.distributedInfo is not None:
            self.about.distributedInfo = found.distributedInfo
        if found.script is not None:
            self.about.script = found.script
        return True

    def _salvaged(self, data: bytes) -> Iterator[list[TraceEvent]]:
        """Yield the readable events by bisection, so that only the events around damage are decoded one by one."""
        waiting = [data]
        while waiting:
            piece = waiting.pop()
            with suppress(*UNDECODABLE):
                yield self._decode(b"[" + piece + b"]")
                continue
            found = _BETWEEN.search(piece, len(piece) // 2) or _BETWEEN.search(piece)
            if found:
                waiting += [piece[found.end() - 1 :], piece[: found.start() + 1]]
            elif event := self._fixed(piece):
                yield [event]
            else:
                self.lost += 1

    def _fixed(self, piece: bytes) -> TraceEvent | None:
        """Return an event whose name is not escaped, or whose values have unexpected types; None if it is lost."""
        for data in (piece, _NAME.sub(_escaped, piece.decode("utf-8", "replace").encode())):
            with suppress(*UNDECODABLE, TypeError, ValueError, OverflowError):
                return self._as_event(msgspec.json.decode(data))
        return None

    def _as_event(self, values: dict[str, Any]) -> Any:
        return _as_event(values)


def _until_damage(unzip: "zlib._Decompress", block: bytes) -> Iterator[bytes]:
    """Yield what can be decompressed in front of damage, which is lost if it is in the same call."""
    with suppress(zlib.error):
        for start in range(0, len(block), DAMAGED_BYTES):
            yield unzip.decompress(block[start : start + DAMAGED_BYTES])


def _cuts(data: bytearray) -> Iterator[int]:
    """Yield the places where one event may end and the next begin, from the end."""
    cut = len(data)
    while (cut := data.rfind(b"},", 0, cut)) >= 0:
        if data[cut + 2 : cut + 64].lstrip().startswith(b"{"):
            yield cut


def _ends(data: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Yield where the events may end, and where the fields behind them begin, from the end."""
    end = len(data)
    while (end := data.rfind(b"]", 0, end)) >= 0:
        behind = _BEHIND_EVENTS.match(data, end + 1)
        before = data[max(end - 64, 0) : end].rstrip()
        if behind and (before.endswith(b"}") or before in (b"[", b"")):  # many an event has an empty list in it
            yield end, behind.end()


def _escaped(found: re.Match[bytes]) -> bytes:
    def escape(odd: re.Match[bytes]) -> bytes:
        return b"\\" + odd[0] if odd[0] in b'\\"' else b"\\u%04x" % ord(odd[0])

    return found[1] + _NOT_ESCAPED.sub(escape, found[2])


def _as_event(values: dict[str, Any]) -> TraceEvent:
    """Convert values of any types to an event; raise an error if they are no object or have no valid times."""
    if not isinstance(values, dict):
        raise TypeError("an event is an object")
    args = values.get("args")
    event = TraceEvent(str(values.get("name", "")), None if values.get("cat") is None else str(values["cat"]))
    event.ts, event.dur = (None if values.get(key) is None else float(values[key]) for key in ("ts", "dur"))
    event.pid, event.tid = (str(values.get(key)) for key in ("pid", "tid"))
    if isinstance(args, dict):
        keys = zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True)
        event.args = Args(**{name: args[key] for name, key in keys if isinstance(args.get(key), int | float | str)})
    return event
