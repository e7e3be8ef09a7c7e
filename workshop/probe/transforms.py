"""Notes which of torchvision's transforms are applied to which pictures."""

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from torch import nn

from workshop.probe.event_file import EventFile
from workshop.probe.signature import encode, is_picture, signature, size_of
from workshop.probe.wire import SimpleTransform, TransformCall


def watch_transforms(v2: Any, events: EventFile) -> None:
    """Watch every transform of torchvision, given its module torchvision.transforms.v2."""
    watch = TransformWatch(events)
    watch.wrap(v2.Transform)
    v1 = sys.modules["torchvision.transforms"]  # the parent of v2, which is loaded before it
    for name in v1.transforms.__all__ + v1.autoaugment.__all__:
        if isinstance(of_v1 := getattr(v1, name), type) and issubclass(of_v1, nn.Module):
            watch.wrap(of_v1)


class TransformWatch:
    """Makes one event of each outermost call of a transform: the simple ones inside, the picture before and after."""

    def __init__(self, events: EventFile) -> None:
        self.events = events
        self._thread = threading.local()
        self._settings: dict[int, tuple[Any, dict[str, str]]] = {}

    def wrap(self, of: type) -> None:
        """Watch the calls of instances of a class."""
        call: Callable[..., Any] = of.__call__

        @functools.wraps(call)
        def watched(transform: Any, *inputs: Any, **options: Any) -> Any:
            if not inputs or not is_picture(inputs[0]):
                return call(transform, *inputs, **options)
            return self._observe(transform, inputs[0], lambda: call(transform, *inputs, **options))

        of.__call__ = watched  # type: ignore[method-assign]

    def _observe(self, transform: Any, picture: Any, call: Callable[[], Any]) -> Any:
        """Call a transform. If it contains no other one, note it; if it is the outermost one, write the event."""
        callers: list[dict[str, Any]] = self._thread.__dict__.setdefault("callers", [])
        if not callers:
            self._thread.simple = []
            before = signature(picture)
        for caller in callers:
            caller["contains_others"] = True
        own = {"contains_others": False}
        callers.append(own)
        try:
            result = call()
        finally:
            callers.pop()
        after = result[0] if isinstance(result, tuple) else result
        if not is_picture(after):
            return result
        simple: list[SimpleTransform] = self._thread.simple
        if not own["contains_others"]:
            name, settings = type(transform).__name__, self._settings_of(transform)
            simple.append(SimpleTransform(name, settings, size_of(picture), size_of(after)))
        if not callers:
            made = encode(signature(after))
            self.events.write(TransformCall, simple=tuple(simple), before=encode(before), after=made)
        return result

    def _settings_of(self, transform: Any) -> dict[str, str]:
        """The settings of a transform that are plain values."""
        known = self._settings.get(id(transform))
        if known and known[0] is transform:
            return known[1]
        settings = {
            name: _as_text(value)
            for name, value in vars(transform).items()
            if not name.startswith("_") and name != "training" and not isinstance(value, dict)
        }
        self._settings[id(transform)] = (transform, settings)  # holding it keeps its id from being used again
        return settings


def _as_text(value: Any) -> str:
    """A setting as text; an enumeration reads as its value, a list as a tuple."""
    value = getattr(value, "value", value)
    return str(tuple(value) if isinstance(value, list) else value)
