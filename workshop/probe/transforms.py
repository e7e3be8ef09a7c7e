"""Notes which of torchvision's transforms are applied to which pictures."""

import functools
import hashlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from workshop.probe.event_file import EventFile
from workshop.probe.events import SimpleTransform, TransformCall, is_random
from workshop.probe.recorded_transform import TransformRecorder, settings_of
from workshop.probe.signature import as_picture, distances, encode, scales, signature, size_of


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
        draw = _random_state() if is_random(type(transform).__name__) else ""
        before = outer.begin(picture, bool(draw))
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
            outer.note(transform, draw, (size_of(picture), size_of(made)), before, made)
        if is_outermost:
            after = outer.look(made)
            self.events.write(
                TransformCall,
                simple=tuple(outer.simple),
                before=encode(outer.first),
                after=encode(after),
                decoded=None if outer.decoded is None else encode(outer.decoded),
                gap=0.0 if outer.decoded is None else outer.gap_to(after),
            )
        return result


class _OutermostCall:
    """What is noted while a transform that no other one has called is at work.

    The picture is looked at as it enters, and again from the first random transform on.
    """

    def __init__(self, picture: Any) -> None:
        self.first = signature(picture)
        self.last, self._known = self.first, _state_of(picture)  # how the picture looks that was looked at last
        self.decoded: Any = None
        self.calls = 0
        self.simple: list[SimpleTransform] = []

    def begin(self, picture: Any, draws: bool) -> Any:
        """Return the signature of a picture that a transform is about to change, unless it is not of interest yet."""
        if draws and self.decoded is None:
            self.decoded = self.last = self.look(picture)
        return None if self.decoded is None else self.look(picture)

    def note(self, transform: Any, draw: str, sizes: tuple[Any, Any], before: Any, made: Any) -> None:
        """Note a simple transform that has been at work.

        Args:
            transform: the transform.
            draw: its draw, as `SimpleTransform` has it.
            sizes: those of what entered, and of what it has made.
            before: the signature of what entered, if it is of interest.
            made: what it has made.
        """
        gap = 0.0
        scaled: tuple[tuple[float, float], ...] = ()
        if before is not None:
            gap = self.gap_to(before)
            self.last, self._known = signature(made), _state_of(made)
            scaled = () if draw else tuple(scales(before, self.last))
        settings = {
            name: _as_text(value) for name, value in settings_of(transform).items() if not isinstance(value, dict)
        }
        self.simple.append(SimpleTransform(type(transform).__name__, settings, *sizes, gap, draw, scaled))

    def look(self, picture: Any) -> Any:
        """Return the signature of a picture, which is known if it is the one that was looked at last, unchanged."""
        return self.last if _state_of(picture)[1:] == self._known[1:] else signature(picture)

    def gap_to(self, found: Any) -> float:
        """Return how far a signature is from the latest one."""
        return 0.0 if found is self.last else max(distances(self.last, found), default=0.0)


def _state_of(picture: Any) -> tuple[Any, ...]:
    """A picture, which stays in memory as long as this is kept, and what is otherwise once it is changed."""
    if isinstance(picture, torch.Tensor):
        return picture, picture.data_ptr(), picture.shape, picture.stride(), picture._version
    return picture, id(picture)


def _random_state() -> str:
    return hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=6).hexdigest()


def _as_text(value: Any) -> str:
    """A setting as text; an enumeration reads as its value, a list as a tuple."""
    value = getattr(value, "value", value)
    return str(tuple(value) if isinstance(value, list) else value)
