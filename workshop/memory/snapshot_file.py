"""Reads what `torch.cuda.memory._dump_snapshot` writes: the blocks of the CUDA allocator, and how they came about.

The file is a pickle, of which nothing but plain values is read: a class or a function in it ends the reading. What was
allocated at a moment follows from the end, backwards: the blocks that are active at the end, without what was allocated
since, and with what was freed. So it is known also where the record begins in the midst of a run.
"""

import pickle
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from workshop.errors import WorkshopError
from workshop.memory.host_watch import HostWatch
from workshop.memory.memory_record import MemoryRecord
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import MemorySegment, SegmentName, TensorKind, TensorRow, TensorsOfDevice
from workshop.probe.observations import WireFrame
from workshop.probe.user_code import is_user_code

SUFFIXES = (".pickle", ".pkl")

ALLOCATES, FREES, FAILS = "alloc", "free_completed", "oom"
"""The events of a record in which memory is taken and given back, and that of an allocation that has failed."""

LONGEST_CURVE = 500
"""The most points of a curve."""

NOTE = (
    "This is a snapshot of torch: it says where memory was allocated, but not what for, nor who holds it. So no causes "
    "were looked for, which needs the script, as in workshop memory train.py."
)


def is_snapshot(name: str) -> bool:
    """Return whether this names a snapshot, and no script."""
    return name.endswith(SUFFIXES) and Path(name).is_file()


def read_snapshot(path: Path) -> MeasuredMemory:
    """Return the memory of each device when most was allocated, or when an allocation has failed.

    Raises:
        WorkshopError: it is no snapshot, or one without anything allocated.
    """
    snapshot = _load(path)
    stacks: dict[tuple[WireFrame, ...], int] = {}
    try:
        histories = list(_histories(snapshot))
        moments = [_moment(each, stacks) for each in histories if each.events or each.at_end]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise _no_snapshot(path, f"{type(error).__name__}: {error}") from None
    if not moments:
        raise WorkshopError(f"{path} has no memory in it: record it with torch.cuda.memory._record_memory_history()")
    record = MemoryRecord(stacks=list(stacks), segments=moments)
    return MeasuredMemory(record, HostWatch(), [], None, [], notes=(NOTE,), is_followed=False)


class _PlainUnpickler(pickle.Unpickler):
    """Reads dicts, lists, numbers and strings, and nothing that could run."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it contains {module}.{name}, which is not read")


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            loaded = _PlainUnpickler(file).load()
    except OSError as error:
        raise WorkshopError(f"cannot read {path}: {error.strerror}") from None
    except Exception as error:  # bytes that are no pickle fail in many ways
        raise _no_snapshot(path, str(error) or type(error).__name__) from None
    if not isinstance(loaded, dict) or not {"segments", "device_traces"} <= loaded.keys():
        raise _no_snapshot(path, "segments and device_traces are missing")
    return loaded


def _no_snapshot(path: Path, why: str) -> WorkshopError:
    return WorkshopError(f"{path} is no memory snapshot of torch ({why}): torch.cuda.memory._dump_snapshot writes one")


@dataclass(frozen=True)
class _Block:
    """Memory that is allocated."""

    size: int
    stack: tuple[WireFrame, ...]
    is_recorded: bool = False
    """Whether the record has the event in which it was allocated."""


@dataclass(frozen=True)
class _History:
    """What was allocated and freed on a device, and what is allocated at the end."""

    device: int
    events: Sequence[dict[str, Any]]
    at_end: dict[int, _Block]


def _histories(snapshot: dict[str, Any]) -> Iterator[_History]:
    at_end: dict[int, dict[int, _Block]] = defaultdict(dict)
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"].startswith("active"):
                size = block.get("requested_size", block["size"])
                stack = _user_stack(block.get("frames") or ())
                at_end[segment["device"]][block.get("address", address)] = _Block(size, stack)
            address += block["size"]
    traces = dict(enumerate(snapshot["device_traces"]))
    for device in sorted(traces.keys() | at_end.keys()):
        events = [each for each in traces.get(device, ()) if each["action"] in (ALLOCATES, FREES, FAILS)]
        yield _History(device, events, at_end[device])


def _moment(history: _History, stacks: dict[tuple[WireFrame, ...], int]) -> MemorySegment:
    """Return what was allocated when it was most, or when an allocation failed last."""
    events = history.events
    changes = [_change(each) for each in events]
    before = sum(each.size for each in history.at_end.values()) - sum(changes)
    sizes = list(accumulate(changes, initial=before))
    failed = max((number for number, each in enumerate(events) if each["action"] == FAILS), default=-1)
    peak = failed + 1 if failed >= 0 else max(range(len(sizes)), key=sizes.__getitem__)
    blocks, device = _allocated(history, peak), f"cuda:{history.device}"
    first_us = events[0].get("time_us", 0) if events else 0
    times_s = [0.0, *((each.get("time_us", first_us) - first_us) / 1e6 for each in events)]
    of_device = TensorsOfDevice(device, sizes[peak], sizes[-1], None, sizes[peak], _curve(times_s, sizes, peak))
    return MemorySegment(
        t=0.0,
        pid=0,
        thread=0,
        name=SegmentName.SNAPSHOT,
        step=0,
        devices=(of_device,),
        at_peak=tuple(_rows(device, blocks, stacks)),
        at_end=(),
        stacks=(),
        failure=_failure(events[failed]) if failed >= 0 else "",
    )


def _change(event: dict[str, Any]) -> int:
    return {ALLOCATES: 1, FREES: -1}.get(event["action"], 0) * int(event["size"])


def _allocated(history: _History, until: int) -> list[_Block]:
    """Return the blocks that are allocated after so many events."""
    blocks, made = dict(history.at_end), {}
    for event in reversed(history.events[until:]):
        if event["action"] == ALLOCATES:
            blocks.pop(event["addr"], None)
        elif event["action"] == FREES:
            blocks[event["addr"]] = _Block(event["size"], ())
    for event in history.events[:until]:
        if event["action"] == ALLOCATES:
            made[event["addr"]] = _Block(event["size"], _user_stack(event.get("frames") or ()), True)
        elif event["action"] == FREES:
            made.pop(event["addr"], None)
    return [made.get(address, block) for address, block in blocks.items()]


def _rows(device: str, blocks: list[_Block], stacks: dict[tuple[WireFrame, ...], int]) -> Iterator[TensorRow]:
    """Return a row for each stack: of what was there before the record, as from before the first step."""
    groups: dict[tuple[tuple[WireFrame, ...], int], list[int]] = defaultdict(list)
    for each in blocks:
        groups[each.stack, 0 if each.is_recorded else -1].append(each.size)
    for (stack, first_step), sizes in groups.items():
        number = stacks.setdefault(stack, len(stacks)) if stack else -1
        yield TensorRow(device, TensorKind.UNKNOWN, number, "", sum(sizes), len(sizes), first_step, 0, 0, 0)


def _user_stack(frames: Sequence[dict[str, Any]]) -> tuple[WireFrame, ...]:
    """Return the frames of the user's Python code, outermost first."""
    files = ((each["name"], each["filename"], each["line"]) for each in reversed(frames))
    return tuple(each for each in files if each[1].endswith(".py") and is_user_code(each[1]))


def _curve(times_s: list[float], sizes: list[int], peak: int) -> tuple[tuple[float, int], ...]:
    """Return some points of the sizes over time: in each of many stretches the largest; the peak is one of them."""
    length = -(-len(sizes) // LONGEST_CURVE)
    starts = range(0, len(sizes), length)
    highest = {max(range(each, min(each + length, len(sizes))), key=sizes.__getitem__) for each in starts}
    return tuple((times_s[each], sizes[each]) for each in sorted({*highest, peak}))


def _failure(event: dict[str, Any]) -> str:
    free = event.get("device_free", event.get("addr", 0))
    return f"an allocation of {event['size'] / 2**20:.1f} MiB failed, with {free / 2**20:.1f} MiB of the device free"
