"""How settings, messages and events cross between a watched script and the process that watches it: lines of JSON."""

import json
from base64 import b64encode
from dataclasses import is_dataclass
from typing import Any

from workshop.probe import events, messages, observations, settings
from workshop.probe.memory import memory_notes

TAG = "$"
"""The key under which a JSON object names its class; no field of a message has this name."""

_CLASSES: dict[str, Any] = {}
for _module in (events, messages, observations, settings, memory_notes):
    for _name, _class in vars(_module).items():
        if is_dataclass(_class) and _CLASSES.setdefault(_name, _class) is not _class:
            raise TypeError(f"two classes of messages are called {_name}")


def encode(message: Any) -> str:
    """Return a message as JSON in one line."""
    return _encoder.encode(message)


def decode(line: str | bytes) -> Any:
    """Return the message that `encode` made this line of; sets inside come back as tuples.

    Raises:
        ValueError: the line is no message.
    """

    def restore(values: dict[str, Any]) -> Any:
        values = {name: _as_tuples(value) for name, value in values.items()}
        return _CLASSES[values.pop(TAG)](**values) if TAG in values else values

    return json.loads(line, object_hook=restore)


def _as_tuples(value: Any) -> Any:
    """Return a value with tuples in place of all lists."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _as_json(part: Any) -> Any:
    if isinstance(part, bytes):
        return b64encode(part).decode()
    return sorted(part) if isinstance(part, frozenset) else {TAG: type(part).__name__, **vars(part)}


_encoder = json.JSONEncoder(default=_as_json)
