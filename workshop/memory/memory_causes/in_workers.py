"""What DataLoaders' workers take, each by itself: copies of objects, caches, arrays that each reads, batches ahead."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from workshop.memory.assignments import assignment_of, called_at, filled_at, is_limited
from workshop.memory.host_table import grown_bytes, prefetched_bytes
from workshop.memory.memory_causes.python_containers import MIN_ANSWERED, MIN_ENTRIES
from workshop.memory.memory_findings import MIN_SHARE_OF_ALL, MemoryCause, MemoryFinding
from workshop.memory.memory_lines import UNKNOWN
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import MIN_OBJECTS, AttributeObjects, HeldObject, WorkerContainers
from workshop.probe.observations import WireFrame
from workshop.probe.user_code import is_user_code

FORKED = (
    "{holder}, a {container}{made}, has {content}. A worker that only reads such an object changes its count of "
    "references, and so copies its page: so far {unshared:.0%} of it. Keep numbers as one numpy array or tensor, which "
    "is shared, and texts as one array of their bytes, with another of where each begins."
)
TOUCHED = "measured: a forked process that goes through it once comes to own {mib:.0f} MiB, times {workers} workers"
SMALLER_HERE = ", and {here_mib:.0f} MiB less in the training's own process"
PICKLED = (
    "{holder}, a {container}{made}, has {content}. Each worker that is not forked gets a copy of its own. Keep it as "
    "one tensor, which they share."
)
SAMPLED = "estimated from the size of some of them, times {workers} workers"
OF_FORKED = MemoryCause("shared-objects", FORKED, TOUCHED, TOUCHED + SMALLER_HERE)
OF_OTHERS = MemoryCause("shared-objects", PICKLED, estimated=SAMPLED)
OF_OTHERS_AND_HERE = MemoryCause("shared-objects", PICKLED, estimated=SAMPLED + SMALLER_HERE)

GROWN, OF_NEWEST = "measured: what the workers have grown by", "estimated from its newest entries"
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
    OF_NEWEST,
)
USELESS_CACHE = MemoryCause(
    CACHE,
    GROWS + "One was asked {asked} times and had the answer {answered} times. Take the cache away, or ask it for what "
    "comes again.",
    GROWN,
    OF_NEWEST,
)
ARRAY_PER_WORKER = MemoryCause(CACHE, BY_EACH, GROWN, OF_NEWEST)
ARRAY_IN_GENERATORS = MemoryCause(CACHE, BY_EACH, "counted: the arrays of all workers but one")
BUFFER_PER_WORKER = MemoryCause(
    "buffer-per-worker",
    "{holder} in {of_function}() holds items that are ready in {workers} workers, {entries} of them together. If it "
    "is there to shuffle, shuffle what they are made from, such as paths or numbers, and load each when its turn has "
    "come: in another order than now.",
    GROWN,
    OF_NEWEST,
)
PREFETCHED_TOO_FAR = MemoryCause(
    "prefetched-too-far",
    "{workers} workers load {factor} batches ahead each; torch's default is {default}. `workshop tune` measures "
    "whether fewer are as fast.",
    estimated="estimated: {fewer} batches fewer, times their size",
)

MIN_UNSHARED = 0.03
"""Share of an attribute's objects, at least, that workers have made their own: fewer are beside what they use."""

MIN_STAY_S = 1.0
"""Seconds, at least, that an array is in a generator: else it may be of a single item."""


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what workers hold by themselves; those that were there at once count."""
    yield from _shared_objects(measured)
    yield from _batches_ahead(measured)
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


# Objects of the dataset that workers share until each touches them, and copies the page that they are on


def _shared_objects(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield the attributes of many Python objects, or arrays, of which workers get copies."""
    same: defaultdict[object, list[AttributeObjects]] = defaultdict(list)
    for each in measured.record.objects if measured.record.workers else ():
        same[each.attribute, each.stack].append(each)  # a line that is run again makes another DataLoader
    for noted in same.values():
        largest = max(noted, key=lambda each: each.bytes)
        is_forked = largest.start_method == "fork"
        unshared, a_copy = _in_workers(measured, largest.attribute, noted) if is_forked else (1.0, largest.bytes)
        if a_copy is None or unshared < MIN_UNSHARED:
            continue
        here = max(largest.bytes - largest.content_bytes, 0)
        line = next((line for _, file, line in reversed(largest.stack) if is_user_code(file)), 0)
        are_many = largest.objects >= MIN_OBJECTS
        yield MemoryFinding(
            OF_FORKED if is_forked else OF_OTHERS_AND_HERE if here else OF_OTHERS,
            "host",
            a_copy * largest.workers + here,
            measured.host.most_bytes,
            _place_of_attribute(largest.attribute, largest.stack, largest.classes),
            largest.attribute,
            measured=is_forked and not here,
            process="worker",
            figures={
                "container": largest.container,
                "made": f" of the DataLoader that line {line} makes" if line else "",
                "content": f"{largest.objects:,} Python objects" if are_many else f"{largest.bytes >> 20} MiB",
                "workers": largest.workers,
                "unshared": unshared,
                "mib": a_copy / 2**20,
                "here_mib": here / 2**20,
            },
        )


def _in_workers(
    measured: MeasuredMemory, attribute: str, noted: Sequence[AttributeObjects]
) -> tuple[float, int | None]:
    """The share of an attribute that workers have made their own, and what a worker comes to own in the end.

    The latter is None if that was not tried.
    """
    loaders = {(each.pid, each.loader) for each in noted}
    sizes = [
        max(each.private_bytes - each.untouched_bytes, 0)
        for each in measured.record.touched
        if each.attribute == attribute and (each.pid, each.loader) in loaders
    ]
    notes = [note for of_worker in measured.record.workers.values() for note in of_worker]
    shares = [dict(each.unshared).get(attribute, 0.0) for each in notes if (each.trainer, each.loader) in loaders]
    return max(shares, default=0.0), max(sizes, default=None)


def _place_of_attribute(name: str, stack: Sequence[WireFrame], classes: Sequence[WireFrame]) -> WireFrame:
    """Where an attribute of a dataset is filled, if the source shows it; else where its DataLoader is made."""
    frames = [each for each in stack if is_user_code(each[1])]
    return assignment_of(name, [UNKNOWN, *classes]) or next(reversed(frames), UNKNOWN)


# Batches ahead


def _batches_ahead(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what the workers of the training's DataLoader load ahead beyond torch's default."""
    record, loader = measured.record, measured.record.loader
    if not measured.host.looks or not record.workers or loader is None or not loader.settings.workers:
        return
    settings = loader.settings
    default = type(settings)(settings.workers).ahead
    if (fewer := settings.ahead - default) > 0:
        size, at = prefetched_bytes(measured) * fewer / settings.ahead, _place_of_attribute("", record.loader_site, ())
        a_worker = {"factor": settings.ahead // settings.workers, "default": default // settings.workers}
        about, whole = {"workers": settings.workers, "fewer": fewer, **a_worker}, measured.host.most_bytes
        kind = PREFETCHED_TOO_FAR
        yield MemoryFinding(kind, "host", round(size), whole, at, measured=False, process="worker", figures=about)


# What becomes more in each


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
        figures=about | {"mib": largest.bytes / 2**20},
    )
    is_buffer = kind is BUFFER_PER_WORKER
    if finding.share >= MIN_SHARE_OF_ALL if is_buffer else not is_limited(largest.holder, largest.stack):
        yield finding


def _kind_of(held: HeldObject, epochs: int) -> MemoryCause:
    if held.asked and epochs > 1 and held.answered < MIN_ANSWERED * held.asked:
        return USELESS_CACHE
    if held.container == "ndarray":
        return ARRAY_PER_WORKER
    function, file, _ = held.stack[0]
    is_of_generator = file and function != "<module>" and not held.asked
    return BUFFER_PER_WORKER if is_of_generator else CACHE_PER_WORKER


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
    kind, holder = ARRAY_IN_GENERATORS, largest.holder
    return MemoryFinding(kind, "host", round(size), whole, at, holder, process="worker", figures=about)


def _place_of(measured: MeasuredMemory, held: HeldObject) -> WireFrame:
    """The line that fills a container, that calls the generator with it, or of the function that has the cache."""
    frame, *classes = held.stack
    if held.asked:
        return frame
    if frame[1]:
        return called_at(frame) or filled_at(f"{held.holder}[...]", [frame])
    noted = next((each for each in measured.record.objects if each.attribute == held.holder), None)
    return _place_of_attribute(held.holder, noted.stack if noted else measured.record.loader_site, classes)


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
