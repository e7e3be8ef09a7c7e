"""Writes a trace anew, with further events and arguments, so that a viewer shows what an analysis found."""

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import msgspec

from workshop.profiles.traces.decoding import Decoder, TraceEvent

ANNOTATIONS = ("user_annotation", "gpu_user_annotation", "python_function")
"""The categories of the events that say where in the training the others are."""

COMPRESSION = 5
"""The level of gzip: higher ones take much longer, and save few bytes."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_events: Callable[[Any], list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw]).decode


class WrittenEvent(TraceEvent, gc=False):
    """An event, and how it is written in the file."""

    written: bytes = b""


class WholeDecoder(Decoder):
    """Yields the same events as `Decoder`, each with all that is written of it.

    Attributes:
        fields: how all fields beside the events are written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, exact=False)
        self.fields: dict[str, bytes] = {}
        self._decode_typed = self._decode
        self._decode = self._decode_both

    def _decode_both(self, data: Any) -> list[TraceEvent]:
        events: list[TraceEvent] = self._decode_typed(data)
        # The bytes are copied: the block is changed once its events are decoded.
        return [_written(event, bytes(raw)) for event, raw in zip(events, _raw_events(data), strict=True)]

    def _as_event(self, values: dict[str, Any]) -> TraceEvent:
        return _written(super()._as_event(values), msgspec.json.encode(values))

    def _read_about(self, data: bytes) -> bool:
        readable = super()._read_about(data)
        if readable:
            self.fields |= {name: bytes(raw) for name, raw in _fields.decode(data).items()}
        return readable


def rewrite(
    source: Path,
    target: Path,
    added: Iterable[dict[str, Any]] = (),
    marked: Mapping[int, dict[str, Any]] = MappingProxyType({}),
    only_marked: bool = False,
) -> None:
    """Write a trace anew; the target is compressed if its name ends with .gz, and may be the source.

    Whatever is neither marked nor left out stays as it is written in the source. What cannot be read of a damaged
    trace is lost.

    Args:
        source: a trace, which may be gzipped.
        target: where to write; a file that is already there is replaced.
        added: events to write behind the others.
        marked: arguments to add to events, by the position of the event: its `EventColumns.index`.
        only_marked: whether to leave out events with a duration that are neither marked nor an annotation.

    Raises:
        TraceError: the source is not a trace.
        OSError: a file cannot be read or written.
    """
    unfinished = target.with_name(f"{target.name}.part")
    try:
        with _opened(unfinished, compressed=target.suffix == ".gz") as file:
            _write(file, WholeDecoder(source), added, marked, only_marked)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _opened(path: Path, compressed: bool) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "wb", COMPRESSION)) if compressed else path.open("wb")


def _write(
    file: BinaryIO,
    decoder: WholeDecoder,
    added: Iterable[dict[str, Any]],
    marked: Mapping[int, dict[str, Any]],
    only_marked: bool,
) -> None:
    file.write(b'{"traceEvents": [')
    between = b"\n"
    for events in _blocks(decoder, marked, only_marked):
        if events:
            file.write(between + b",\n".join(events))
            between = b",\n"
    for event in added:
        file.write(between + msgspec.json.encode(event))
        between = b",\n"
    file.write(b"\n]")
    for name, value in decoder.fields.items():  # some are read only behind the events
        file.write(b",\n" + msgspec.json.encode(name) + b": " + value)
    file.write(b"}\n")


def _blocks(decoder: WholeDecoder, marked: Mapping[int, dict[str, Any]], only_marked: bool) -> Iterator[list[bytes]]:
    """Yield how the events are written from now on, block by block."""
    count = 0
    for events in decoder:
        written = []
        for position, event in enumerate(cast(list[WrittenEvent], events), count):
            if position in marked:
                written.append(_with_args(event.written, marked[position]))
            elif not only_marked or event.dur is None or event.cat in ANNOTATIONS:
                written.append(event.written)
        count += len(events)
        yield written


def _with_args(written: bytes, args: dict[str, Any]) -> bytes:
    event = _fields.decode(written)  # numbers stay as they are written: as floats, they would lose digits
    before = event.get("args", msgspec.Raw(b"{}"))
    known = _fields.decode(before) if bytes(before).startswith(b"{") else {}
    return msgspec.json.encode(event | {"args": known | args})


def _written(event: TraceEvent, written: bytes) -> WrittenEvent:
    return WrittenEvent(event.name, event.cat, event.ts, event.dur, event.pid, event.tid, event.args, written)
