"""What every process of a watched script reports: the photos it reads, its sleeps, the transforms it applies.

The probe lives in the script's own process and in its DataLoader workers. `inject/sitecustomize.py` starts it; a forked
process inherits it, one that is spawned or comes from a forkserver starts its own. Nothing is learnt from the source
text: an audit hook sees files being opened, `time.sleep` and the transforms' `__call__` are wrapped. Each process
appends events to a file of its own, one JSON object a line, with the time of the monotonic clock, which all share.

In the process that trains, `loop.Loop` adds the events of the training loop.
"""

import base64
import fcntl
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import socket
import sys
import threading
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VARIABLE = "WORKSHOP_PROBE"
HIGH = 500
"""From this file descriptor on, the probe's own."""

SAMPLES = 64
"""Values that a signature takes of each channel."""

# The script may replace these in its process; what is timed here must not follow.
_monotonic, _sleep = time.monotonic, time.sleep
_CLOCKS = {name: getattr(time, name) for name in ("perf_counter", "perf_counter_ns", "monotonic", "time")}


@dataclass(frozen=True)
class Orders:
    """What the judge tells a watched script as it starts, by an environment variable."""

    folder: str
    """Where the events go."""

    photos: str
    """Files below this folder are the data: each opening is an event."""

    control: int
    """File descriptor of the socket to the judge, in the process that trains."""

    epoch_steps: int | None
    """Optimizer steps in an epoch; None to take what the first DataLoader says."""

    sample_step: int | None
    """Step of the first epoch to record for recomputation, counted from 0."""

    life: int = 0
    """How often the script was started before this."""

    measure: bool = False
    """Time its steps, and nothing else: see `meter.Meter`."""

    def to_environment(self) -> dict[str, str]:
        """The variable that `start` reads."""
        return {VARIABLE: json.dumps(asdict(self))}


class Events:
    """The file that this process appends its events to. A forked process goes on in a file of its own."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.pid, self.file = 0, -1

    def __call__(self, kind: str, **fields: Any) -> None:
        """Append one event, whole: other threads may do the same."""
        pid = os.getpid()
        if self.pid != pid:
            path = os.path.join(self.folder, f"{pid}.jsonl")
            low = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self.file = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH)
            os.close(low)
            self.pid = pid  # last: a thread that sees it writes to the file
        event = {"kind": kind, "t": _monotonic(), "pid": pid, "thread": threading.get_ident(), **fields}
        os.write(self.file, json.dumps(event).encode() + b"\n")


def start() -> None:
    """Install the hooks, as `WORKSHOP_PROBE` orders. Python calls this before the script's first line."""
    orders = Orders(**json.loads(os.environ[VARIABLE]))
    events = Events(orders.folder)
    if not orders.measure:
        _watch_work(orders, events)
    try:  # the first process with these orders is the one that trains
        os.close(os.open(os.path.join(orders.folder, f"{orders.life}.claimed"), os.O_CREAT | os.O_EXCL, 0o600))
        # Out of the way of a script that closes or counts its first file descriptors.
        judge = socket.socket(fileno=fcntl.fcntl(orders.control, fcntl.F_DUPFD_CLOEXEC, HIGH))
        os.close(orders.control)
    except OSError:
        return

    def watch_training(torch: types.ModuleType) -> None:
        if orders.measure:
            from workshop.harness.meter import Meter

            Meter(judge).install()
        else:
            from workshop.harness.loop import Loop

            Loop(judge, events, orders).install()

    after_import("torch", watch_training)


def _watch_work(orders: Orders, events: Events) -> None:
    thread = threading.local()
    _watch_sleep(thread)
    _watch_photos(orders.photos, events, thread)
    after_import("torchvision.transforms.v2", functools.partial(_watch_transforms, events=events))
    after_import("torchvision.io.image", functools.partial(_watch_read_file, photos=orders.photos))


def replaced_clocks() -> list[str]:
    """Names in `time` that the script has put something else in the place of."""
    names = [name for name, clock in _CLOCKS.items() if getattr(time, name) is not clock]
    return [*names, *([] if getattr(time.sleep, "is_watched", False) else ["sleep"])]


def _watch_sleep(thread: threading.local) -> None:
    @functools.wraps(_sleep)
    def sleep(seconds: float) -> None:
        begin = _monotonic()
        _sleep(seconds)
        thread.slept_s = getattr(thread, "slept_s", 0.0) + _monotonic() - begin

    sleep.is_watched = True  # type: ignore[attr-defined]
    time.sleep = sleep  # type: ignore[assignment]


def _watch_photos(photos: str, events: Events, thread: threading.local) -> None:
    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(photos):
            # The slow data set sleeps and then reads, in one thread. What the thread slept since its last photo comes
            # along, so that sleeping elsewhere meanwhile counts for nothing.
            events("read", photo=os.path.basename(arguments[0]), slept_s=getattr(thread, "slept_s", 0.0))
            thread.slept_s = 0.0

    sys.addaudithook(hook)


def _watch_read_file(module: Any, photos: str) -> None:
    """Let audit hooks see the files that torchvision opens in C++."""
    read_file = module.read_file

    @functools.wraps(read_file)
    def audited(path: Any) -> Any:
        sys.audit("open", str(path), "rb", 0)
        return read_file(path)

    module.read_file = audited


def _watch_transforms(v2: Any, events: Events) -> None:
    import torchvision.transforms as v1
    from torch import nn

    watch = TransformWatch(events)
    watch.wrap(v2.Transform)
    for name in v1.transforms.__all__ + v1.autoaugment.__all__:
        if isinstance(of_v1 := getattr(v1, name), type) and issubclass(of_v1, nn.Module):
            watch.wrap(of_v1)


class TransformWatch:
    """One event for each outermost call of a transform: the simple ones inside, the picture before and after."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.thread = threading.local()
        self.descriptions: dict[int, tuple[Any, dict[str, Any]]] = {}

    def wrap(self, of: type) -> None:
        """Let calls of instances of a class be seen."""
        call: Callable[..., Any] = of.__call__

        @functools.wraps(call)
        def watched(transform: Any, *inputs: Any, **options: Any) -> Any:
            if not inputs or not is_picture(inputs[0]):
                return call(transform, *inputs, **options)
            return self.observe(transform, inputs[0], lambda: call(transform, *inputs, **options))

        of.__call__ = watched  # type: ignore[method-assign]

    def observe(self, transform: Any, picture: Any, call: Callable[[], Any]) -> Any:
        """Call, and note the transform if it is a simple one; if it is the outermost one, write the event."""
        callers: list[dict[str, Any]] = self.thread.__dict__.setdefault("callers", [])
        if not callers:
            self.thread.simple = []
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
        if not own["contains_others"]:
            simple = self.describe(transform) | {"before": size_of(picture), "after": size_of(after)}
            self.thread.simple.append(simple)
        if not callers:
            self.events("transform", simple=self.thread.simple, before=encode(before), after=encode(signature(after)))
        return result

    def describe(self, transform: Any) -> dict[str, Any]:
        """Its name, and those of its settings that are plain values."""
        known = self.descriptions.get(id(transform))
        if known and known[0] is transform:
            return known[1]
        settings = {
            name: _plain(value)
            for name, value in vars(transform).items()
            if not name.startswith("_") and name != "training" and not isinstance(value, dict)
        }
        description = {"name": type(transform).__name__, "settings": settings}
        self.descriptions[id(transform)] = (transform, description)  # holding it keeps its id from being used again
        return description


def _plain(value: Any) -> str:
    """A setting as text; an enumeration or a list reads as its value or a tuple."""
    value = getattr(value, "value", value)
    return str(tuple(value) if isinstance(value, list) else value)


def is_picture(value: Any) -> bool:
    """Whether it is a tensor with height and width, or a Pillow image."""
    if hasattr(value, "getpixel"):
        return True
    return hasattr(value, "ndim") and hasattr(value, "detach") and value.ndim >= 3


def size_of(picture: Any) -> tuple[int, int]:
    """Height and width in pixels."""
    return picture.size[::-1] if hasattr(picture, "getpixel") else tuple(picture.shape[-2:])


def signature(values: Any) -> Any:
    """A few values of each picture in a tensor of shape (..., channels, height, width), or of a Pillow image.

    Returns:
        A float tensor of shape (pictures, channels * SAMPLES), on the tensor's device; the copy is not waited for. A
        tensor that holds no pictures, of two dimensions or more than five, counts as one row of values for each item.
    """
    import torch

    if hasattr(values, "getpixel"):
        width, height = values.size
        spots = [divmod(spot, width) for spot in _spots(width * height)]
        pixels = torch.tensor([values.getpixel((x, y)) for y, x in spots], dtype=torch.float32)
        return pixels.reshape(SAMPLES, -1).T.reshape(1, -1)
    with torch.no_grad():
        plain = values.detach().as_subclass(torch.Tensor)
        if plain.is_complex():
            plain = torch.view_as_real(plain)
        if plain.ndim < 3 or plain.ndim > 5:
            plain = plain.reshape(len(plain), 1, 1, -1)
        spots_of_all = torch.tensor(_spots(plain.shape[-1] * plain.shape[-2]), device=plain.device)
        picked = plain.flatten(-2)[..., spots_of_all]
        return picked.reshape(-1, picked.shape[-2] * SAMPLES).float()


@functools.cache
def _spots(pixels: int) -> list[int]:
    return [(2 * spot + 1) * pixels // (2 * SAMPLES) for spot in range(SAMPLES)]


def encode(signatures: Any) -> dict[str, Any]:
    """For an event; `ledger.decode` is the way back."""
    import torch

    half = signatures.to("cpu", torch.float16).contiguous().numpy()
    return {"shape": half.shape, "base64": base64.b64encode(half.tobytes()).decode()}


def after_import(name: str, do: Callable[[Any], None]) -> None:
    """Call `do` with the module of that name, once, as soon as it is loaded."""
    if name in sys.modules:
        do(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, do))


class _AfterImport(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, do: Callable[[Any], None]) -> None:
        self.name, self.do = name, do

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec and spec.loader:
            load = spec.loader.exec_module

            def load_and_do(module: types.ModuleType) -> None:
                load(module)
                self.do(module)

            spec.loader.exec_module = load_and_do  # type: ignore[method-assign]
        return spec


def events_in(folder: Path) -> list[dict[str, Any]]:
    """All events in a folder, by time. A line that is still being written is left for the next time."""
    events: list[dict[str, Any]] = []
    for path in folder.glob("*.jsonl"):
        whole, _, _ = path.read_text().rpartition("\n")
        events.extend(json.loads(line) for line in whole.splitlines())
    return sorted(events, key=lambda event: event["t"])
