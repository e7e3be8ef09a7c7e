"""How settings, messages and events cross between a watched script and the process that watches it: lines of JSON."""

import json
from typing import Any

import msgspec

from workshop.probe import events, messages, settings

_TAG = "$"
"""The key under which a JSON object names its class; no field of a message has this name."""

_CLASSES = {name: each for module in (events, messages, settings) for name, each in vars(module).items()}


def encode(message: Any) -> str:
    """Return a message as JSON in one line."""
    return json.dumps({_TAG: type(message).__name__} | msgspec.to_builtins(message))


def decode(line: str | bytes) -> Any:
    """Return the message that `encode` made this line of.

    Raises:
        ValueError: the line is no message.
    """
    fields = json.loads(line)
    return msgspec.convert(fields, _CLASSES[fields.pop(_TAG)])
