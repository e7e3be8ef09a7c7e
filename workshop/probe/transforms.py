"""Notes which of torchvision's transforms are applied to which pictures, and records some random ones.

What was recorded is applied again in another process. There the transform is torchvision's own, whatever the script has
made of it, and it begins with the same random state.
"""

import functools
import inspect
import io
import itertools
import os
import pickle
import random
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from workshop.probe.event_file import EventFile, is_muted
from workshop.probe.events import Signatures, SimpleTransform, TransformCall, is_random
from workshop.probe.messages import Repetition
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


SHARE = 1 / 4
"""The share of calls that are recorded, as long as there is room."""

ROOM = 8_000_000
"""The bytes that each process may write."""

_TRUSTED = ("torch", "torchvision", "PIL", "numpy", "collections", "_codecs")
"""The packages whose classes and functions a recorded call may name."""


class TransformRecorder:
    """Records some of the calls, chosen by chance, each in a file of its own.

    Args:
        folder: the folder of the files.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._dice = random.SystemRandom()  # forked processes do not share it, and the script's own draws stay
        self._pid, self._room = 0, ROOM
        self._numbers = itertools.count()
        self._threads: set[int | None] = set()

    def chosen(self, picture: Any) -> tuple[bytes, torch.Tensor] | None:
        """Return a copy of a picture and of the state of torch's random generator, if the next call is one of those.

        Pictures on another device are left out: what is drawn there does not depend on this state alone.
        """
        self._threads |= {threading.main_thread().ident, threading.get_ident()}
        if self._pid != os.getpid():
            self._pid, self._room = os.getpid(), ROOM
        on_cpu = not isinstance(picture, torch.Tensor) or picture.device.type == "cpu"
        if is_muted() or self._room <= 0 or not on_cpu or self._dice.random() >= SHARE:
            return None
        return pickle.dumps(picture), torch.get_rng_state()

    def record(self, transform: Any, begun: tuple[bytes, torch.Tensor], made: Any) -> None:
        """Write how a transform was made, what `chosen` has returned, and what came out."""
        kind = next((each for each in type(transform).mro() if each.__module__.startswith("torchvision.")), None)
        try:
            if kind is None:
                raise TypeError("it is none of torchvision's")
            content = pickle.dumps((kind, settings_of(transform), *begun, made, len(self._threads) > 1))
        except Exception as error:  # a transform of the script's own may be anything
            content = pickle.dumps(f"{type(transform).__name__}: {error}")
        self._room -= len(content)
        path = os.path.join(self.folder, f"transform-{os.getpid()}-{next(self._numbers)}")
        with suppress(OSError):  # no room left
            Path(f"{path}.part").write_bytes(content)
            os.rename(f"{path}.part", f"{path}.pickle")


def settings_of(transform: Any) -> dict[str, Any]:
    """Return the attributes of a transform that are neither private nor those of any module."""
    return {name: value for name, value in vars(transform).items() if not name.startswith("_") and name != "training"}


def repeat(path: Path) -> Repetition:
    """Apply a recorded transform again, newly made with the same settings, and compare the results.

    What is private to it, such as the policies of AutoAugment, is that of a new one.
    """
    try:
        content = _Unpickler(io.BytesIO(path.read_bytes())).load()
        if isinstance(content, str):
            return Repetition(error=content)
        kind, settings, entered, state, made, threads = content
        picture = _Unpickler(io.BytesIO(entered)).load()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            names = inspect.signature(kind).parameters
            transform = kind(**{name: value for name, value in settings.items() if name in names})
            vars(transform).update(settings)  # some are kept in another form than they are given in
            torch.set_rng_state(state)
            again = nn.Module.__call__(transform, picture)  # not noted as work of this script
    except Exception as error:
        return Repetition(error=f"{type(error).__name__}: {error}")
    return Repetition(kind.__name__, _difference(as_picture(again), as_picture(made)), threads)


class _Unpickler(pickle.Unpickler):
    """Loads nothing that the script itself defines."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] not in _TRUSTED:
            raise pickle.UnpicklingError(f"{module}.{name} is none of torchvision's")
        return super().find_class(module, name)


def _difference(one: Any, other: Any) -> float:
    """The root mean square difference of two pictures, as a fraction of the range of the first one's values."""
    a, b = (_values(each) for each in (one, other))
    if a is None or b is None or a.shape != b.shape:
        return 1.0
    spread = float(a.max() - a.min())
    return float((a - b).square().mean().sqrt()) / max(spread, 1e-6)


def _values(picture: Any) -> torch.Tensor | None:
    if isinstance(picture, torch.Tensor):
        return picture.detach().cpu().float()
    if picture is None:
        return None
    return torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).float()
