"""Writes a trace anew, with further events and arguments, so that a viewer shows what an analysis found."""

import gzip
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from workshop.traces.decoding import Decoder, PlainEvent, fields_of

ANNOTATIONS = ("user_annotation", "gpu_user_annotation", "python_function")
"""The categories of the events that say where in the training the others are."""


class WrittenEvent(PlainEvent, gc=False):
    """An event, and how it is written in the file."""

    written: bytes = msgspec.field(default=b"", name=" ")  # no event has a value of that name


_written_events: Callable[[Any], list[WrittenEvent]] = msgspec.json.Decoder(list[WrittenEvent]).decode
_raw_events: Callable[[Any], list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decode_written_events(data: Any) -> list[WrittenEvent]:
    """Decode a list of events, each with all that is written of it."""
    events = _written_events(data)
    for event, raw in zip(events, _raw_events(data), strict=True):
        event.written = bytes(raw)  # copied: the block is changed once its events are decoded
    return events


def written_events(path: Path, wanted: Collection[int]) -> dict[int, WrittenEvent]:
    """Read some events of a file again, by their `EventColumns.index`: the columns do not have all of them."""
    events = chain.from_iterable(Decoder(path, decode_written_events))
    return {index: event for index, event in enumerate(events) if index in wanted}


def rewrite(
    source: Path,
    target: Path,
    added: Iterable[dict[str, Any]] = (),
    marked: Mapping[int, dict[str, Any]] = MappingProxyType({}),
    only_marked: bool = False,
) -> None:
    """Write a trace anew; the target is compressed if its name ends with .gz, and may be the source.

    Behind the events of the source come the `added` ones. The `marked` ones, by their `EventColumns.index`, get
    further arguments. `only_marked` leaves out events with a duration that are neither marked nor an annotation. All
    else stays as it is written in the source. What cannot be read of a damaged trace is lost.

    Raises:
        TraceError: the source is not a trace.
        OSError: a file cannot be read or written.
    """
    unfinished = target.with_name(f"{target.name}.part")
    try:
        compressed = target.suffix == ".gz"  # by gzip's level 3: 9 makes it 30 % smaller, and takes many times as long
        with gzip.open(unfinished, "wb", 3) if compressed else unfinished.open("wb") as file:
            file.writelines(_pieces(Decoder(source, decode_written_events), added, marked, only_marked))
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def exact_us(ns: int) -> msgspec.Raw:
    """Return a time in µs for an event to add: a float would lose the nanoseconds of a time since 1970."""
    return msgspec.Raw(str(Decimal(ns) / 1000).encode())


def _pieces(
    decoder: Decoder, added: Iterable[dict[str, Any]], marked: Mapping[int, dict[str, Any]], only_marked: bool
) -> Iterator[bytes]:
    """Yield what is written, piece by piece."""
    yield b'{"traceEvents": ['
    between = b"\n"
    for event in chain(_kept(decoder, marked, only_marked), map(msgspec.json.encode, added)):
        yield between + event
        between = b",\n"
    yield b"\n]"
    for name, value in decoder.fields.items():  # some are read only behind the events
        yield b",\n" + msgspec.json.encode(name) + b": " + value
    yield b"}\n"


def _kept(decoder: Decoder, marked: Mapping[int, dict[str, Any]], only_marked: bool) -> Iterator[bytes]:
    """Yield how the events of the source are written from now on."""
    for index, event in enumerate(chain.from_iterable(decoder)):
        if (args := marked.get(index)) is not None:
            yield _with_args(event.written, args)
        elif not only_marked or event.dur is None or event.cat in ANNOTATIONS:
            yield event.written


def _with_args(written: bytes, args: dict[str, Any]) -> bytes:
    event = fields_of(written)  # numbers stay as they are written: as floats, they would lose digits
    before = event.get("args", msgspec.Raw(b"{}"))
    known = fields_of(before) if bytes(before).startswith(b"{") else {}
    return msgspec.json.encode(event | {"args": known | args})
