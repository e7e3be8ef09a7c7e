"""Reads the events of a trace with all that is written of them, where the columns of `Trace` do not have enough."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from workshop.traces.decoding import Decoder, PlainEvent

fields_of: Callable[[Any], dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""Decodes an object to its fields, each as it is written."""


class WrittenEvent(PlainEvent, gc=False):
    """An event, and how it is written in the file."""

    written: bytes = msgspec.field(default=b"", name=" ")  # no event has a value of that name


_written_events: Callable[[Any], list[WrittenEvent]] = msgspec.json.Decoder(list[WrittenEvent]).decode
_raw_events: Callable[[Any], list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw]).decode


class WholeDecoder(Decoder):
    """Yields the same events as `Decoder`, each with all that is written of it.

    Attributes:
        fields: how all fields beside the events are written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, exact=False)
        self.fields: dict[str, bytes] = {}
        self._decode = _decoded

    def _as_event(self, values: dict[str, Any]) -> Any:
        event = super()._as_event(values)
        return WrittenEvent(
            event.name, event.cat, event.ts, event.dur, event.pid, event.tid, written=msgspec.json.encode(values)
        )

    def _read_about(self, data: bytes) -> bool:
        readable = super()._read_about(data)
        if readable:
            self.fields |= {name: bytes(raw) for name, raw in fields_of(data).items()}
        return readable


def _decoded(data: Any) -> list[WrittenEvent]:
    events = _written_events(data)
    for event, raw in zip(events, _raw_events(data), strict=True):
        event.written = bytes(raw)  # copied: the block is changed once its events are decoded
    return events
