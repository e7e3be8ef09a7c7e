"""Reads what `torch.cuda.memory._dump_snapshot` writes: the blocks of the CUDA allocator, and how they came about.

The file is a pickle, of which nothing but plain values is read: a class or a function in it ends the reading. What was
allocated at a moment follows from the end, backwards: the blocks that are active at the end, without what was allocated
since, and with what was freed. So it is known also where the record begins in the midst of a run.
"""

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from workshop.errors import WorkshopError
from workshop.file_kind import SNAPSHOT, kind_of, wrong_kind
from workshop.memory.host_watch import HostWatch
from workshop.memory.memory_record import MemoryRecord
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import (
    MAX_POINTS,
    MemorySegment,
    SegmentName,
    TensorKind,
    TensorRow,
    TensorsOfDevice,
)
from workshop.probe.observations import AllocatorUse, WireFrame
from workshop.probe.user_code import is_user_code

SUFFIXES = (".pickle", ".pkl")

WRITES_ONE = "torch.cuda.memory._dump_snapshot writes one"

ALLOCATES, FREES, FAILS = "alloc", "free_completed", "oom"
"""The events of a record in which memory is taken and given back, and that of an allocation that has failed."""

RESERVES, RETURNS = ("segment_alloc", "segment_map"), ("segment_free", "segment_unmap")
"""The events in which the allocator takes memory from the device, and gives it back."""

NOTE = (
    "This is a snapshot of torch: it says where memory was allocated, but not what for, nor who holds it. So no causes "
    "were looked for, which needs the script, as in workshop memory train.py. The record holds {events:,} events of "
    "{seconds:.1f} s; a higher peak before it is not in it."
)

BACKWARD = "autograd::Engine"
"""What the names of C++ frames have in them where a backward pass allocates, in a thread that has no Python frames."""


def is_snapshot(name: str) -> bool:
    """Return whether this names a snapshot, and no script."""
    return Path(name).is_file() and (name.endswith(SUFFIXES) or kind_of(Path(name)) is SNAPSHOT)


def read_snapshot(path: Path) -> MeasuredMemory:
    """Return the memory of each device when most was allocated, or when an allocation has failed.

    Raises:
        WorkshopError: it is no snapshot, or one without anything allocated.
    """
    snapshot = _load(path)
    stacks: dict[tuple[WireFrame, ...], int] = {}
    try:
        histories = [each for each in _histories(snapshot) if each.events or each.at_end]
        moments = [_moment(each, stacks) for each in histories]
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise _no_snapshot(path, f"{type(error).__name__}: {error}") from None
    if not moments:
        raise WorkshopError(f"{path} has no memory in it: record it with torch.cuda.memory._record_memory_history()")
    if not all(map(_is_whole, histories, moments)):
        raise WorkshopError(f"{path} leaves out what was allocated or freed: record it without skip_actions")
    moments.sort(key=lambda each: (bool(each.failure), each.t))  # that of a failure is the last one
    record = MemoryRecord(stacks=list(stacks), segments=moments)
    events = sum(len(each.events) for each in histories)
    seconds = max(each.devices[0].curve[-1][0] for each in moments)
    went_on = filter(None, map(_went_on, histories))
    notes = (NOTE.format(events=events, seconds=seconds), *went_on, *record.of_allocators)
    return MeasuredMemory(record, HostWatch(), [], None, [], notes=notes, is_followed=False)


class _NotPlainError(pickle.UnpicklingError):
    """A pickle holds something that could run."""


class _PlainUnpickler(pickle.Unpickler):
    """Reads dicts, lists, numbers and strings, and nothing that could run."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise _NotPlainError(f"it contains {module}.{name}, which is not read")


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            loaded = _PlainUnpickler(file).load()
    except OSError as error:
        raise WorkshopError(f"cannot read {path}: {error.strerror}") from None
    except Exception as error:  # bytes that are no pickle fail in many ways
        kind = kind_of(path)
        if isinstance(error, _NotPlainError) and (kind in (None, SNAPSHOT) or not kind.command):
            raise _no_snapshot(path, str(error)) from None
        if kind is SNAPSHOT:
            raise _no_snapshot(path, "it is damaged") from None
        raise WorkshopError(wrong_kind(path, "no memory snapshot of torch", WRITES_ONE)) from None
    if not isinstance(loaded, dict) or not {"segments", "device_traces"} <= loaded.keys():
        raise _no_snapshot(path, "segments and device_traces are missing")
    return loaded


def _no_snapshot(path: Path, why: str) -> WorkshopError:
    return WorkshopError(f"{path} is no memory snapshot of torch ({_printable(why)}); {WRITES_ONE}")


def _printable(text: str) -> str:
    """Return a text without what would steer a terminal."""
    return "".join(filter(str.isprintable, text))[:200]


def _size(value: Any) -> int:
    """Return a number of the file as a size or an address.

    Raises:
        ValueError: it can be neither.
    """
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.40} is no size")
    return value


@dataclass(frozen=True)
class _Block:
    """Memory that is allocated."""

    size: int
    stack: tuple[WireFrame, ...] = ()
    kind: TensorKind = TensorKind.EARLIER


@dataclass(frozen=True)
class _History:
    """What was allocated and freed on a device, and what is allocated at the end."""

    device: int
    events: Sequence[dict[str, Any]]
    at_end: dict[int, _Block]
    reserved: Sequence[int]
    """What the allocator had taken from the device, in bytes, before the first event and after each."""
    returned: int
    """How often it has given something back, and has taken more later."""

    @property
    def failures(self) -> list[int]:
        """The events in which an allocation has failed."""
        return [number for number, each in enumerate(self.events) if each["action"] == FAILS]

    @property
    def failure(self) -> int | None:
        """The last of them, if nothing as large was allocated after it: libraries try again with less."""
        if not self.failures:
            return None
        last = self.failures[-1]
        after = (_size(each["size"]) for each in self.events[last:] if each["action"] == ALLOCATES)
        return last if max(after, default=0) < _size(self.events[last]["size"]) else None


def _histories(snapshot: dict[str, Any]) -> Iterator[_History]:
    at_end: dict[int, dict[int, _Block]] = defaultdict(dict)
    reserved = Counter[int]()
    for segment in snapshot["segments"]:
        address, device = _size(segment["address"]), _size(segment["device"])
        for block in segment["blocks"]:
            if block["state"].startswith("active"):
                size = _size(block.get("requested_size", block["size"]))
                stack, kind = _origin(block.get("frames") or ())
                kind = kind if stack else TensorKind.EARLIER
                at_end[device][block.get("address", address)] = _Block(size, stack, kind)
            address += _size(block["size"])
            reserved[device] += _size(block["size"])
    traces = dict(enumerate(snapshot["device_traces"]))
    for device in sorted(traces.keys() | at_end.keys()):
        recorded = traces.get(device, ())
        events = [each for each in recorded if each["action"] in (ALLOCATES, FREES, FAILS)]
        yield _History(device, events, at_end[device], *_reserved(recorded, reserved[device]))


def _reserved(recorded: Sequence[dict[str, Any]], at_end: int) -> tuple[list[int], int]:
    """Return the `reserved` and the `returned` of a history."""
    found, reserved, returned, takes_more = list[int](), at_end, 0, False
    for each in reversed(recorded):
        if each["action"] in RESERVES:
            reserved, takes_more = reserved - _size(each["size"]), True
        elif each["action"] in RETURNS:
            reserved, returned = reserved + _size(each["size"]), returned + takes_more
        elif each["action"] in (ALLOCATES, FREES, FAILS):
            found.append(reserved)
    return [reserved, *reversed(found)], returned


def _moment(history: _History, stacks: dict[tuple[WireFrame, ...], int]) -> MemorySegment:
    """Return what was allocated when it was most, or when an allocation has failed."""
    events, failed = history.events, history.failure
    changes = [_change(each) for each in events]
    before = sum(each.size for each in history.at_end.values()) - sum(changes)
    sizes = list(accumulate(changes, initial=before))
    peak = max(range(len(sizes)), key=sizes.__getitem__) if failed is None else failed + 1
    blocks, device = _allocated(history, peak), f"cuda:{history.device}"
    first_us = _size(events[0].get("time_us", 0)) if events else 0
    times_s = [0.0, *((_size(each.get("time_us", first_us)) - first_us) / 1e6 for each in events)]
    of_device = TensorsOfDevice(
        device=device,
        peak_bytes=sizes[peak],
        end_bytes=sizes[-1],
        allocator_bytes=None,
        followed_bytes=sizes[peak],
        curve=_curve(times_s, sizes, peak),
        allocator=AllocatorUse(history.reserved[peak], sizes[peak], history.returned, retries=0),
    )
    return MemorySegment(
        t=times_s[peak],
        pid=0,
        thread=0,
        name=SegmentName.SNAPSHOT,
        step=0,
        devices=(of_device,),
        at_peak=tuple(_rows(device, blocks, stacks)),
        at_end=(),
        stacks=(),
        failure="" if failed is None else _failure(events[failed]),
    )


def _is_whole(history: _History, moment: MemorySegment) -> bool:
    """Return whether nothing is allocated where something is, and the blocks make up the sum."""
    there = set[int]()
    for each in history.events:
        if each["action"] == ALLOCATES and each["addr"] in there:
            return False
        if each["action"] != FAILS:
            (there.add if each["action"] == ALLOCATES else there.discard)(each["addr"])
    return sum(row.bytes for row in moment.at_peak) == moment.devices[0].peak_bytes


def _change(event: dict[str, Any]) -> int:
    return {ALLOCATES: 1, FREES: -1}.get(event["action"], 0) * _size(event["size"])


def _allocated(history: _History, until: int) -> list[_Block]:
    """Return the blocks that are allocated after so many events."""
    blocks, made = dict(history.at_end), {}
    for event in reversed(history.events[until:]):
        if event["action"] == ALLOCATES:
            blocks.pop(event["addr"], None)
        elif event["action"] == FREES:
            blocks[event["addr"]] = _Block(_size(event["size"]))
    for event in history.events[:until]:
        if event["action"] == ALLOCATES:
            made[event["addr"]] = _Block(_size(event["size"]), *_origin(event.get("frames") or ()))
        elif event["action"] == FREES:
            made.pop(event["addr"], None)
    return [_with_stack(made.get(address, block), block) for address, block in blocks.items()]


def _with_stack(made: _Block, at_end: _Block) -> _Block:
    """Return a block with its stack: with `context="state"`, only what is there at the end has one."""
    return replace(made, stack=made.stack or at_end.stack)


def _rows(device: str, blocks: list[_Block], stacks: dict[tuple[WireFrame, ...], int]) -> Iterator[TensorRow]:
    """Return a row for each stack."""
    groups: dict[tuple[tuple[WireFrame, ...], TensorKind], list[int]] = defaultdict(list)
    for each in blocks:
        groups[each.stack, each.kind].append(each.size)
    for (stack, kind), sizes in groups.items():
        number = stacks.setdefault(stack, len(stacks)) if stack else -1
        yield TensorRow(device, kind, number, "", sum(sizes), len(sizes), 0, 0, 0, 0)


def _origin(frames: Sequence[dict[str, Any]]) -> tuple[tuple[WireFrame, ...], TensorKind]:
    """Return the frames of the user's Python code, outermost first, and what is known of the kind."""
    found = ((_printable(each["name"]), _printable(each["filename"]), _size(each["line"])) for each in reversed(frames))
    stack = tuple(each for each in found if each[1].endswith(".py") and is_user_code(each[1]))
    is_backward = not stack and any(BACKWARD in each["name"] for each in frames)
    return stack, TensorKind.BACKWARD if is_backward else TensorKind.UNKNOWN


def _curve(times_s: list[float], sizes: list[int], peak: int) -> tuple[tuple[float, int], ...]:
    """Return some points of the sizes over time: in each of many stretches the largest; the peak is one of them."""
    length = -(-len(sizes) // MAX_POINTS)
    starts = range(0, len(sizes), length)
    highest = {max(range(each, min(each + length, len(sizes))), key=sizes.__getitem__) for each in starts}
    return tuple((times_s[each], sizes[each]) for each in sorted({*highest, peak}))


def _went_on(history: _History) -> str:
    """Say it if allocations have failed, and the script has gone on."""
    failed = len(history.failures)
    if not failed or history.failure is not None:
        return ""
    times = f"{failed} allocations have" if failed > 1 else "An allocation has"
    return f"{times} failed on cuda:{history.device}, and the script went on with others as large."


def _failure(event: dict[str, Any]) -> str:
    free = _size(event.get("device_free", event.get("addr", 0)))
    return f"an allocation of {event['size'] / 2**20:.1f} MiB failed, with {free / 2**20:.1f} MiB of the device free"
