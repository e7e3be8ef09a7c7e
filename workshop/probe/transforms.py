"""Notes which of torchvision's transforms are applied to which pictures."""

import functools
import hashlib
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from workshop.probe.event_file import EventFile
from workshop.probe.signature import distances, encode, is_picture, signature, size_of
from workshop.probe.wire import SimpleTransform, TransformCall, is_random


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

    def wrap(self, of: type) -> None:
        """Watch the calls of instances of a class that is called as every module is."""

        @functools.wraps(nn.Module.__call__)
        def watched(transform: Any, *inputs: Any, **options: Any) -> Any:
            def call() -> Any:
                return nn.Module.__call__(transform, *inputs, **options)

            return self._observe(transform, inputs[0], call) if inputs and is_picture(inputs[0]) else call()

        of.__call__ = watched  # type: ignore[method-assign]

    def _observe(self, transform: Any, picture: Any, call: Callable[[], Any]) -> Any:
        """Call a transform. If it contains no other one, note it; if it is the outermost one, write the event."""
        outer: _OutermostCall | None = getattr(self._thread, "outer", None)
        is_outermost = outer is None
        if outer is None:
            outer = self._thread.outer = _OutermostCall(picture)
        begun = outer.calls = outer.calls + 1
        name = type(transform).__name__
        draw = _random_state() if is_random(name) else ""
        before = outer.signature_of(picture)
        try:
            result = call()
        finally:
            if is_outermost:
                del self._thread.outer
        made = result[0] if isinstance(result, tuple) else result
        if not is_picture(made):
            return result
        if outer.calls == begun:  # it contains no other one
            sizes = size_of(picture), size_of(made)
            outer.note(SimpleTransform(name, _settings_of(transform), *sizes, draw=draw), before, made)
        if is_outermost:
            after = outer.signature_of(made)
            self.events.write(
                TransformCall,
                simple=tuple(outer.simple),
                before=encode(outer.first),
                after=encode(after),
                decoded=None if outer.decoded is None else encode(outer.decoded),
                gap=max(distances(outer.last, after), default=0.0),
            )
        return result


class _OutermostCall:
    """What is noted while a transform that no other one has called is at work."""

    def __init__(self, picture: Any) -> None:
        self.first = self.last = signature(picture)  # of what entered, and of what left the latest simple transform
        self._picture = picture, _version(picture)  # that the latter is the signature of
        self.decoded: torch.Tensor | None = None
        self.calls = 0
        self.simple: list[SimpleTransform] = []

    def signature_of(self, picture: Any) -> torch.Tensor:
        """Return the signature of a picture, which is known if it comes unchanged from the latest simple transform."""
        known, version = self._picture
        return self.last if picture is known and _version(picture) == version else signature(picture)

    def note(self, simple: SimpleTransform, before: torch.Tensor, made: Any) -> None:
        """Note a simple transform that has been at work, the signature of what entered, and what it has made."""
        gap = 0.0 if before is self.last else max(distances(self.last, before), default=0.0)
        self.last, self._picture = signature(made), (made, _version(made))
        moved: tuple[float, ...] = ()
        if simple.draw and simple.before == simple.after:
            moved = tuple(distances(before, self.last))
        if simple.draw and self.decoded is None:
            self.decoded = before
        self.simple.append(replace(simple, moved=moved, gap=gap))


def _version(picture: Any) -> int:
    """How many times a tensor has been changed in place; 0 of a Pillow image."""
    return getattr(picture, "_version", 0)


def _random_state() -> str:
    return hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=6).hexdigest()


def _settings_of(transform: Any) -> dict[str, str]:
    """The settings of a transform that are plain values, as they are now."""
    return {
        name: _as_text(value)
        for name, value in vars(transform).items()
        if not name.startswith("_") and name != "training" and not isinstance(value, dict)
    }


def _as_text(value: Any) -> str:
    """A setting as text; an enumeration reads as its value, a list as a tuple."""
    value = getattr(value, "value", value)
    return str(tuple(value) if isinstance(value, list) else value)
