"""Decodes the bytes of a trace into events, block by block; of a damaged file, as many events as possible.

msgspec decodes the JSON into typed objects, which keep a third of what is there and skip the rest.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from workshop.errors import WorkshopError
from workshop.file_kind import GZIP, wrong_kind

BLOCK_BYTES = 1 << 22
"""Bytes of JSON that are decoded at once: enough for speed, few enough for memory."""

COMPRESSED_BYTES = 1 << 10
"""Compressed bytes that are decompressed at once; up to this many are lost before damage."""

MAX_BETWEEN = 64
"""Bytes, at most, that `"traceEvents": [` takes, or the space in front of a bare list, or between two events."""

NO_TRACE, WRITES_ONE = "no trace of torch.profiler", "prof.export_chrome_trace and workshop record torch write one"

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_EVENTS_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_BEHIND_EVENTS = re.compile(rb"\s*(?:,\s*(?=\")|(?=\}))")
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_NAME = re.compile(  # bounded, as damage may leave a name without an end
    rb'("(?:name|cat)"\s*:\s*")(.{0,65535}?)(?="\s*,\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:)', re.DOTALL
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
    external: Number = msgspec.field(default=-1, name="External id")
    # Of an operator, and of what is called in Python:
    sequence: Number = msgspec.field(default=-1, name="Sequence number")
    forward_thread: Number = msgspec.field(default=-1, name="Fwd thread id")
    call_stack: Number = msgspec.field(default=None, name="Call stack")
    called_from: Number = msgspec.field(default=None, name="CallFrom")
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


decode_events: Callable[[Any], list[Any]] = msgspec.json.Decoder(list[TraceEvent]).decode
decode_exact_events: Callable[[Any], list[Any]] = msgspec.json.Decoder(list[ExactEvent]).decode
fields_of: Callable[[Any], dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""Decodes an object to its fields, each as it is written."""


class Decoder:
    """Yields the events of a file in blocks, in the order of the file.

    Args:
        path: a trace, which may be gzipped.
        decode: makes objects of a list of events in JSON.

    Attributes:
        fields: how the fields beside the events are written; complete once all events were read.
        lost: the number of events that could not be read.
        truncated: whether the file ends too early.
        is_list: whether the file is a bare list, which other programs write, too.
    """

    def __init__(self, path: Path, decode: Callable[[Any], list[Any]] = decode_events) -> None:
        self.path = path
        self.fields: dict[str, bytes] = {}
        self.lost = 0
        self.truncated = False
        self.is_list = False
        self._decode = decode

    def __iter__(self) -> Iterator[list[Any]]:
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
            yield from self._last_events(data[1:])

    def field(self, name: str) -> Any:
        """Return the value of a field beside the events; None if there is none, or it cannot be read."""
        with suppress(*UNDECODABLE):
            return msgspec.json.decode(self.fields.get(name, b"null"))
        return None

    def _blocks(self, file: BufferedReader) -> Iterator[bytes | bytearray]:
        """Yield what is in the file, decompressed."""
        if not file.peek(len(GZIP)).startswith(GZIP):
            yield from iter(lambda: file.read(BLOCK_BYTES), b"")
            return
        block = bytearray()
        for piece in self._decompressed(file):
            block += piece
            if len(block) >= BLOCK_BYTES:
                yield block
                block = bytearray()
        if block:
            yield block

    def _decompressed(self, file: BufferedReader) -> Iterator[bytes]:
        """Decompress a little at a time, as all of it is lost where some is damaged; the gzip module loses more."""
        unzip, behind, self.truncated = zlib.decompressobj(wbits=31), b"", True
        while piece := behind or file.read(COMPRESSED_BYTES):
            behind = b""
            if unzip.eof:
                piece = piece.lstrip(b"\0")
                if not piece:
                    continue
                unzip = zlib.decompressobj(wbits=31)  # the file has another gzip member
            try:
                yield unzip.decompress(piece)
            except zlib.error:
                self.truncated = True
                return
            behind = unzip.unused_data
            self.truncated = not unzip.eof

    def _begin(self, blocks: Iterable[bytes | bytearray]) -> bytearray:
        """Read the fields before the events; return what was read behind the bracket that opens the events."""
        read = bytearray()
        for block in blocks:
            searched = max(len(read) - MAX_BETWEEN, 0)
            read += block
            if read[:MAX_BETWEEN].lstrip().startswith(b"["):
                self.is_list = True
                return read.lstrip()[1:]
            if found := _EVENTS_BEGIN.search(read, searched):
                self._read_fields(read[: found.start()].rstrip().removesuffix(b",") + b"}")
                return read[found.end() :]
        if not read:
            what = "damaged: nothing of it can be decompressed" if self.truncated else "empty"
            raise TraceError(f"{self.path} is {what}")
        raise TraceError(wrong_kind(self.path, NO_TRACE, WRITES_ONE))

    def _first_events(self, data: bytearray) -> tuple[Iterable[list[Any]], bytearray]:
        """Return the whole events in the data, which begin with a bracket, and the data that remain."""
        cuts = list(islice(_cuts(data), 4))  # the first one is between two events, but for damage
        for cut in cuts:
            data[cut + 1] = ord("]")  # in place of a comma: nothing is copied
            with suppress(*UNDECODABLE), memoryview(data) as view:
                events = self._decode(view[: cut + 2])
                return [events], bytearray(b"[") + data[cut + 2 :]
            data[cut + 1] = ord(",")
        if not cuts or any(_ends(data)):
            return [], data  # perhaps only the fields behind the events are in the way
        return self._salvaged(data[1 : cuts[0] + 1]), bytearray(b"[") + data[cuts[0] + 2 :]

    def _last_events(self, data: bytearray) -> Iterator[list[Any]]:
        """Yield the events up to the closing bracket, and read the fields behind it."""
        end = None
        for found, behind in islice(_ends(data), 1000):  # a damaged file may have millions
            if self._read_fields(b"{" + data[behind:]):
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

    def _read_fields(self, data: bytes | bytearray) -> bool:
        with suppress(*UNDECODABLE):
            self.fields |= {name: bytes(value) for name, value in fields_of(data).items()}
            return True
        return False

    def _salvaged(self, data: bytearray) -> Iterator[list[Any]]:
        """Yield the readable events by bisection, so that only the events around damage are decoded one by one."""
        waiting = [data]
        while waiting:
            piece = waiting.pop()
            with suppress(*UNDECODABLE):
                yield self._decode(b"[" + piece + b"]")
                continue
            if places := [*_BETWEEN.finditer(piece)]:
                found = places[len(places) // 2]
                waiting += [piece[found.end() - 1 :], piece[: found.start() + 1]]
            elif events := self._fixed(piece):
                yield events
            else:
                self.lost += 1

    def _fixed(self, piece: bytearray) -> list[Any]:
        """Return an event whose name is not escaped, or whose values have unexpected types; nothing if it is lost."""
        for data in (piece, _NAME.sub(_escaped, piece.decode("utf-8", "replace").encode())):
            with suppress(*UNDECODABLE, ValueError, TypeError, OverflowError):
                return self._decode(msgspec.json.encode([_converted(_object(data))]))
        return []


def _cuts(data: bytearray) -> Iterator[int]:
    """Yield the places where one event may end and the next begin, from the end."""
    cut = len(data)
    while (cut := data.rfind(b"},", 0, cut)) >= 0:
        if data[cut + 2 : cut + MAX_BETWEEN].lstrip().startswith(b"{"):
            yield cut


def _ends(data: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Yield where the events may end, and where the fields behind them begin, from the end."""
    end = len(data)
    while (end := data.rfind(b"]", 0, end)) >= 0:
        behind = _BEHIND_EVENTS.match(data, end + 1)
        before = data[max(end - MAX_BETWEEN, 0) : end].rstrip()
        if behind and (before.endswith(b"}") or before in (b"[", b"")):  # many an event has an empty list in it
            yield end, behind.end()


def _escaped(found: re.Match[bytes]) -> bytes:
    def escape(odd: re.Match[bytes]) -> bytes:
        return b"\\" + odd[0] if odd[0] in b'\\"' else b"\\u%04x" % ord(odd[0])

    return found[1] + _NOT_ESCAPED.sub(escape, found[2])


def _converted(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event with values of the types that torch writes; raise an error if it has no valid times."""
    fields = {key: value for key, value in event.items() if value is not None}
    fields |= {key: convert(fields[key]) for key, convert in _CONVERSIONS.items() if key in fields}
    args = fields.pop("args", None)
    if isinstance(args, dict):
        odd = {key for key in _KNOWN_ARGS if type(args.get(key)) not in (int, float, str)}
        fields["args"] = {key: value for key, value in args.items() if key not in odd}
    return fields


def _number(value: Any) -> Any:
    return value if type(value) in (int, float, str) else str(value)


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "name": str,
    "cat": str,
    "ts": float,
    "dur": float,
    "pid": _number,
    "tid": _number,
}
_KNOWN_ARGS = Args.__struct_encode_fields__
_object: Callable[[Any], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode
