"""Notes which of torchvision's transforms are applied to which pictures."""

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from workshop.probe.event_file import EventFile
from workshop.probe.events import Signatures, SimpleTransform, TransformCall, is_random
from workshop.probe.recorded_transform import TransformRecorder, settings_of
from workshop.probe.signature import as_picture, encode, signature, size_of

DRAWN_NUMBERS = 4
"""So many of the numbers that a random transform may draw are noted. They also name the generator's state."""


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
        self.recorder = TransformRecorder(events.folder)
        self._thread = threading.local()

    def wrap(self, of: type) -> None:
        """Watch the calls of instances of a class that is called as every module is."""

        @functools.wraps(nn.Module.__call__)
        def watched(transform: Any, *inputs: Any, **options: Any) -> Any:
            def call() -> Any:
                return nn.Module.__call__(transform, *inputs, **options)

            picture = as_picture(inputs[0]) if inputs else None
            alone = len(inputs) == 1 and not options  # nothing but the picture
            return call() if picture is None else self._observe(transform, inputs[0] if alone else None, picture, call)

        of.__call__ = watched  # type: ignore[method-assign]

    def _observe(self, transform: Any, entered: Any, picture: Any, call: Callable[[], Any]) -> Any:
        """Call a transform. If it contains no other one, note it; if it is the outermost one, write the event."""
        outer: _OutermostCall | None = getattr(self._thread, "outer", None)
        is_outermost = outer is None
        if outer is None:
            outer = self._thread.outer = _OutermostCall(picture)
        number = outer.calls = outer.calls + 1
        draw = next_numbers() if is_random(type(transform).__name__) else ""
        looked_at = outer.enter(picture, bool(draw))
        begun = self.recorder.chosen(entered) if draw and entered is not None else None
        try:
            result = call()
        finally:
            if is_outermost:
                del self._thread.outer
        made = as_picture(result[0] if isinstance(result, tuple) else result)
        if made is None:
            return result
        if outer.calls == number:  # it contains no other one
            if begun:
                self.recorder.record(transform, begun, result)
            texts = {name: _as_text(of) for name, of in settings_of(transform).items() if not isinstance(of, dict)}
            of = type(transform).__name__, texts, size_of(picture)
            outer.simple.append(SimpleTransform(*of, draw, looked_at, outer.leave(made)))
        if is_outermost:
            pictures = {"before": outer.first, "after": outer.look(made), "decoded": outer.decoded}
            self.events.write(TransformCall, simple=tuple(outer.simple), **pictures)
        return result


class _OutermostCall:
    """The notes on a running transform that was not called by another.

    The picture is examined as it enters, and again from the first random transform on.
    """

    def __init__(self, picture: Any) -> None:
        self.first = self._last = encode(signature(picture))
        self._known = _state_of(picture)  # how the picture was that was looked at last
        self.decoded: Signatures | None = None
        self.calls = 0
        self.simple: list[SimpleTransform] = []

    def look(self, picture: Any) -> Signatures:
        """Return the signature of a picture, which is known if it is the one that was looked at last, unchanged."""
        if not self._knows(picture):
            self._last, self._known = encode(signature(picture)), _state_of(picture)
        return self._last

    def enter(self, picture: Any, draws: bool) -> Signatures | None:
        """Return the signature of what a transform is about to change, if that is of interest and not known yet."""
        if draws and self.decoded is None:
            self.decoded = self.look(picture)
        return None if self.decoded is None or self._knows(picture) else encode(signature(picture))

    def leave(self, picture: Any) -> Signatures | None:
        """Return the signature of what a transform has made, if that is of interest."""
        return None if self.decoded is None else self.look(picture)

    def _knows(self, picture: Any) -> bool:
        return _state_of(picture)[1:] == self._known[1:]


def _state_of(picture: Any) -> tuple[Any, ...]:
    """A picture, which stays in memory as long as this is kept, and what is otherwise once it is changed."""
    if isinstance(picture, torch.Tensor):
        return picture, picture.data_ptr(), picture.shape, picture.stride(), picture._version
    return picture, id(picture)


def next_numbers() -> str:
    """Return the next numbers of 32 bits that torch's random generator gives out, as hexadecimal digits."""
    generator = torch.Generator()
    generator.set_state(torch.get_rng_state())
    pairs = torch.empty(DRAWN_NUMBERS // 2, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    return "".join(f"{pair % 2**64:016x}" for pair in pairs.tolist())


def _as_text(value: Any) -> str:
    """A setting as text; an enumeration reads as its value, a list as a tuple."""
    value = getattr(value, "value", value)
    return str(tuple(value) if isinstance(value, list) else value)
