"""Records some calls of torchvision's random transforms, which are then made again in another process.

There the transform is torchvision's own, whatever the script has made of it, and it begins with the same random state.
"""

import inspect
import io
import itertools
import os
import pickle
import random
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from workshop.probe.event_file import is_muted
from workshop.probe.messages import Repetition

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
    return Repetition(kind.__name__, _difference(again, made), threads)


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
        return picture.detach().as_subclass(torch.Tensor).cpu().float()
    if not hasattr(picture, "tobytes"):
        return None
    return torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).float()
