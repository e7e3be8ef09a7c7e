"""What becomes more in the workers, each by itself: caches, arrays that each reads, and items that wait."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from workshop.memory.assignments import called_at, filled_at, is_limited
from workshop.memory.host_table import grown_bytes
from workshop.memory.memory_causes.python_containers import MIN_ANSWERED, MIN_ENTRIES
from workshop.memory.memory_causes.shared_objects import place_of_attribute
from workshop.memory.memory_findings import MIN_SHARE_OF_ALL, MemoryCause, MemoryFinding
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import HeldObject, WorkerContainers
from workshop.probe.observations import WireFrame

GROWN = "measured: what the workers have grown by"
SAMPLED = "estimated from its newest entries"


CACHE = "cache-per-worker"
GROWS = "{holder} grows in {workers} workers, each by itself: {entries} entries so far. "
BY_EACH = (
    "{holder}, {mib:.1f} MiB, is made or read in {workers} workers, by each for itself. If all have the same, map its "
    "file, np.load(path, mmap_mode='c'), or make it before the fork."
)
CACHE_PER_WORKER = MemoryCause(
    CACHE,
    GROWS + "What one has loaded, the others load and keep again. Keep what is cached on disk (np.memmap), or in "
    "shared memory.",
    GROWN,
    SAMPLED,
)
USELESS_CACHE = MemoryCause(
    CACHE,
    GROWS + "One was asked {asked} times and had the answer {answered} times. Take the cache away, or ask it for what "
    "comes again.",
    GROWN,
    SAMPLED,
)
ARRAY_PER_WORKER = MemoryCause(CACHE, BY_EACH, GROWN, SAMPLED)
BUFFER_PER_WORKER = MemoryCause(
    "buffer-per-worker",
    "{holder} in {of_function}() holds items that are ready in {workers} workers, {entries} of them together. If it "
    "is there to shuffle, shuffle what they are made from, such as paths or numbers, and load each when its turn has "
    "come: in another order than now.",
    GROWN,
    SAMPLED,
)
ARRAY_IN_GENERATORS = MemoryCause(CACHE, BY_EACH, "counted: the arrays of all workers but one")

MIN_STAY_S = 1.0
"""Seconds, at least, that an array is in a generator: else it may be of a single item."""

ARRAY = "ndarray"


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what the workers that were there at once hold, each by itself."""
    workers = _at_once(measured)
    read = _read_by_each(workers)
    yield from (_reads(measured, each) for each in read.values() if len(each) > 1)
    grown: defaultdict[object, list[_Longer]] = defaultdict(list)
    for notes in workers.values():
        before = {(each.holder, each.stack[0]): (each.length, each.bytes) for each in notes[0].containers}
        for key, last in {(each.holder, each.stack[0]): each for each in notes[-1].containers}.items():
            if not last.identity and last.stack[0][:2] not in read:
                length, size = before.get(key, (0, 0))
                grown[key].append(_Longer(last, last.length - length, last.bytes - size))
    for of_workers in grown.values():
        longer = [each for each in of_workers if each.entries >= MIN_ENTRIES]
        if longer and len(longer) >= max(len(of_workers) // 2, 1):
            yield from _grown(measured, workers, longer)


class _Longer(NamedTuple):
    """A container of a worker, and by how much it has become longer."""

    last: HeldObject
    entries: int
    bytes: int


def _grown(
    measured: MeasuredMemory, workers: dict[int, list[WorkerContainers]], longer: Sequence[_Longer]
) -> Iterator[MemoryFinding]:
    """The same container of several workers, unless it has a limit."""
    largest = max((each.last for each in longer), key=lambda each: each.bytes)
    kind = _kind_of(largest, measured.record.epochs)
    estimated = sum(each.bytes for each in longer)
    seen = sum(max(grown_bytes(measured, pid), 0) for pid in workers)
    size = min(seen, estimated) if seen else estimated
    about: dict[str, Any] = {"workers": len(longer), "entries": sum(each.entries for each in longer)}
    about |= {"asked": largest.asked, "answered": largest.answered, "of_function": largest.stack[0][0]}
    about["mib"] = largest.bytes / 2**20
    finding = MemoryFinding(
        kind,
        "host",
        size,
        measured.host.most_bytes,
        _place_of(measured, largest),
        largest.holder,
        bool(seen),
        size / max(_steps_of(measured, workers), 1) if kind in (CACHE_PER_WORKER, USELESS_CACHE) else 0.0,
        "worker",
        figures=about,
    )
    is_buffer = kind is BUFFER_PER_WORKER
    if finding.share >= MIN_SHARE_OF_ALL if is_buffer else not is_limited(largest.holder, largest.stack):
        yield finding


def _kind_of(held: HeldObject, epochs: int) -> MemoryCause:
    """The cause of what grows in workers."""
    if held.asked and epochs > 1 and held.answered < MIN_ANSWERED * held.asked:
        return USELESS_CACHE
    if held.container == ARRAY:
        return ARRAY_PER_WORKER
    function, file, _ = held.stack[0]
    if file and function != "<module>" and not held.asked:
        return BUFFER_PER_WORKER
    return CACHE_PER_WORKER


def _read_by_each(workers: dict[int, list[WorkerContainers]]) -> dict[tuple[str, str], list[list[HeldObject]]]:
    """The arrays that stay in the variables of what is iterated: by the function and its file, those of each worker."""
    found: defaultdict[tuple[str, str], list[list[HeldObject]]] = defaultdict(list)
    for notes in workers.values():
        stay: defaultdict[tuple[str, str], list[HeldObject]] = defaultdict(list)
        for each in notes[-1].containers:
            if each.identity and _stays(each, notes):
                stay[each.stack[0][:2]].append(each)
        for key, arrays in stay.items():
            found[key].append(arrays)
    return found


def _stays(array: HeldObject, notes: list[WorkerContainers]) -> bool:
    """Whether an array was there long before the last note, so that it is not of a single item."""
    since = [note.t for note in notes for each in note.containers if each.identity == array.identity]
    return notes[-1].t - min(since) >= MIN_STAY_S


def _reads(measured: MeasuredMemory, of_workers: list[list[HeldObject]]) -> MemoryFinding:
    """The arrays of one function, named by the largest: one of the workers' copies would do."""
    arrays = [each for of_worker in of_workers for each in of_worker]
    largest = max(arrays, key=lambda each: each.bytes)
    size, at = sum(each.bytes for each in arrays) * (1 - 1 / len(of_workers)), filled_at(largest.holder, largest.stack)
    about, whole = {"mib": largest.bytes / 2**20, "workers": len(of_workers)}, measured.host.most_bytes
    return MemoryFinding(
        ARRAY_IN_GENERATORS, "host", round(size), whole, at, largest.holder, process="worker", figures=about
    )


def _place_of(measured: MeasuredMemory, held: HeldObject) -> WireFrame:
    """The line that fills a container, that calls the generator with it, or of the function that has the cache."""
    frame, *classes = held.stack
    if held.asked:
        return frame
    if frame[1]:
        return called_at(frame) or filled_at(f"{held.holder}[...]", [frame])
    noted = next((each for each in measured.record.objects if each.attribute == held.holder), None)
    return place_of_attribute(held.holder, noted.stack if noted else measured.record.loader_site, classes)


def _at_once(measured: MeasuredMemory) -> dict[int, list[WorkerContainers]]:
    """What those workers have noted that were there at the same time, when they had most by themselves."""
    workers = measured.record.workers
    private = [
        {pid: memory.private for pid, memory in each.processes.items() if pid in workers}
        for each in measured.host.looks
    ]
    most = max(private, key=lambda each: sum(each.values()), default={})
    return {pid: workers[pid] for pid in most}


def _steps_of(measured: MeasuredMemory, workers: dict[int, list[WorkerContainers]]) -> int:
    """How many steps there were between the first and the last notes of some workers."""
    times = [each.t for notes in workers.values() for each in notes]
    return sum(each.steps for each in measured.reports if min(times) <= each.ended_s <= max(times))
