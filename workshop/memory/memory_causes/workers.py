"""What workers take: copies of Python objects that a fork has shared, caches of their own, batches loaded ahead."""

from collections import defaultdict
from collections.abc import Iterator

from workshop.memory.assignments import assignment_of, called_at, filled_at, is_limited
from workshop.memory.host_table import HostTable, grown_bytes, host_table
from workshop.memory.memory_causes.containers import FEW_ANSWERS
from workshop.memory.memory_findings import MemoryFinding
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.dataset_attributes import MIN_OBJECTS
from workshop.probe.memory.memory_notes import AttributeObjects, WorkerContainer, WorkerContainers
from workshop.probe.observations import WireFrame
from workshop.probe.user_code import is_user_code

MIN_FACTOR = 2
"""torch's own number of batches that each worker loads ahead."""

MIN_UNSHARED = 0.03
"""So few objects of an attribute may be on a page with others that workers use."""

MIN_LENGTH_GROWTH = 8
"""A cache has become longer by so many entries."""

ARRAY = "ndarray"

STAYS_S = 1.0
"""An array that a generator has for so long is taken to stay."""

MIN_BUFFER = 0.1
"""Items that wait in a worker are told of if they are this share of all memory: some have to."""


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what the workers need not have."""
    table = host_table(measured)
    if table is None or not measured.record.workers:
        return
    yield from _objects(measured, table)
    yield from _caches(measured, table)
    yield from _prefetched(measured, table)


def _objects(measured: MeasuredMemory, table: HostTable) -> Iterator[MemoryFinding]:
    """Attributes of many Python objects: each worker that touches one copies the page that it is on."""
    same: defaultdict[object, list[AttributeObjects]] = defaultdict(list)
    for each in measured.record.objects:
        same[each.attribute, each.stack].append(each)  # a line that is run again makes another DataLoader
    for noted in same.values():
        largest = max(noted, key=lambda each: each.bytes)
        found = _forked(measured, largest, noted) if largest.start_method == "fork" else _pickled(largest)
        if found is None:
            continue
        size, words, basis = found
        here = max(largest.bytes - largest.content_bytes, 0)
        gain = size * largest.workers + here
        of_trainer = f", and {here / 2**20:.0f} MiB less in the training's own process" if here else ""
        function, file, line = _place(largest.attribute, largest.stack, largest.classes)
        made = [each for each in largest.stack if is_user_code(each[1])]
        of = f" of the DataLoader that line {made[-1][2]} makes" if made else ""
        yield MemoryFinding(
            cause="shared-objects",
            place="host",
            file=file,
            line=line or None,
            function=function,
            holder=largest.attribute,
            gain_bytes=gain,
            share=gain / max(table.together_bytes, 1),
            measured=largest.start_method == "fork" and not here,
            bytes_a_step=0.0,
            words=f"{largest.attribute}, a {largest.container}{of}, {_what(largest)}. {words}",
            basis=f"{basis}, times {largest.workers} workers{of_trainer}",
            process="worker",
        )


def _forked(
    measured: MeasuredMemory, largest: AttributeObjects, noted: list[AttributeObjects]
) -> tuple[int, str, str] | None:
    """What a worker comes to own in the end, if workers really go through it."""
    loaders = {(each.pid, each.loader) for each in noted}
    sizes = [
        each.private_bytes - each.untouched_bytes
        for each in measured.record.touched
        if each.attribute == largest.attribute and (each.pid, each.loader) in loaders and not each.error
    ]
    shares = [
        dict(note.unshared).get(largest.attribute, 0.0)
        for notes in measured.record.workers.values()
        for note in notes
        if (note.trainer, note.loader) in loaders
    ]
    unshared = max(shares, default=0.0)
    if not sizes or unshared < MIN_UNSHARED:
        return None
    size = max(*sizes, 0)
    words = (
        "A worker that only reads such an object changes its count of references, and so copies its page: so far "
        f"{unshared:.0%} of it. Keep numbers as one numpy array or tensor, which is shared, and texts as one array of "
        "their bytes, with another of where each begins."
    )
    return size, words, f"measured: a forked process that goes through it once comes to own {size / 2**20:.0f} MiB"


def _what(noted: AttributeObjects) -> str:
    """What an attribute has: many objects, or arrays."""
    return f"has {noted.objects:,} Python objects" if noted.objects >= MIN_OBJECTS else f"has {noted.bytes >> 20} MiB"


def _pickled(largest: AttributeObjects) -> tuple[int, str, str]:
    """What a worker gets that is not forked."""
    words = "Each worker that is not forked gets a copy of its own. Keep it as one tensor, which they share."
    return largest.bytes, words, "estimated from the size of some of them"


def _place(name: str, stack: tuple[WireFrame, ...], classes: tuple[WireFrame, ...]) -> WireFrame:
    """Where an attribute is filled, if the source shows it; else where the DataLoader is made."""
    frames = [each for each in stack if is_user_code(each[1])]
    return assignment_of(name, [("", "", 0), *classes]) or next(reversed(frames), ("", "", 0))


def _caches(measured: MeasuredMemory, table: HostTable) -> Iterator[MemoryFinding]:
    """Containers that become longer in the workers: each has its own."""
    workers = _at_once(measured)
    read = _read_by_each(workers)
    yield from (_reads(each, table) for each in read.values() if len(each) > 1)
    grown: defaultdict[object, list[tuple[WorkerContainer, WorkerContainer | None]]] = defaultdict(list)
    for notes in workers.values():
        first, last = ({(each.holder, each.frame): each for each in note.containers} for note in (notes[0], notes[-1]))
        for key, container in last.items():
            if not container.identity and container.frame[:2] not in read:
                grown[key].append((container, first.get(key)))
    measured_bytes = sum(max(grown_bytes(measured, pid), 0) for pid in workers)
    steps = max(_steps_of(measured, workers), 1)
    for of_workers in grown.values():
        longer = [
            (last, last.length - (first.length if first else 0), last.bytes - (first.bytes if first else 0))
            for last, first in of_workers
        ]
        longer = [each for each in longer if each[1] >= MIN_LENGTH_GROWTH]
        if not longer or len(longer) < max(len(of_workers) // 2, 1):
            continue
        estimated = sum(size for _, _, size in longer)
        size = min(measured_bytes, estimated) if measured_bytes else estimated
        share = size / max(table.together_bytes, 1)
        largest = max((each for each, _, _ in longer), key=lambda each: each.bytes)
        cause, words = _said(largest, len(longer), sum(each for _, each, _ in longer), measured.record.epochs)
        function, file, line = _place_of(measured, largest)
        is_no_fault = (
            share < MIN_BUFFER
            if cause == "buffer-per-worker"
            else is_limited(largest.holder, (largest.frame, *largest.classes))
        )
        if is_no_fault:
            continue
        yield MemoryFinding(
            cause=cause,
            place="host",
            file=file,
            line=line or None,
            function=function,
            holder=largest.holder,
            gain_bytes=size,
            share=share,
            measured=bool(measured_bytes),
            bytes_a_step=size / steps if cause == "cache-per-worker" and largest.container != ARRAY else 0.0,
            words=words,
            basis="measured: what the workers have grown by" if measured_bytes else "estimated from its newest entries",
            process="worker",
        )


def _read_by_each(workers: dict[int, list[WorkerContainers]]) -> dict[tuple[str, str], list[list[WorkerContainer]]]:
    """The arrays that stay in the variables of what is iterated: by the function and its file, those of each worker."""
    found: defaultdict[tuple[str, str], list[list[WorkerContainer]]] = defaultdict(list)
    for notes in workers.values():
        stay: defaultdict[tuple[str, str], list[WorkerContainer]] = defaultdict(list)
        for each in notes[-1].containers:
            if each.identity and _stays(each, notes):
                stay[each.frame[:2]].append(each)
        for key, arrays in stay.items():
            found[key].append(arrays)
    return found


def _reads(of_workers: list[list[WorkerContainer]], table: HostTable) -> MemoryFinding:
    """The arrays of one function, named by the largest: one of the workers' copies would do."""
    arrays = [each for of_worker in of_workers for each in of_worker]
    largest = max(arrays, key=lambda each: each.bytes)
    size = round(sum(each.bytes for each in arrays) * (1 - 1 / len(of_workers)))
    function, file, line = filled_at(largest.holder, [largest.frame])
    return MemoryFinding(
        cause="cache-per-worker",
        place="host",
        file=file,
        line=line or None,
        function=function,
        holder=largest.holder,
        gain_bytes=size,
        share=size / max(table.together_bytes, 1),
        measured=True,
        bytes_a_step=0.0,
        words=_by_each(largest, len(of_workers)),
        basis="counted: the arrays of all workers but one",
        process="worker",
    )


def _by_each(largest: WorkerContainer, workers: int) -> str:
    return (
        f"{largest.holder}, {largest.bytes / 2**20:.1f} MiB, is made or read in {workers} workers, by each for "
        "itself. If all have the same, map its file, np.load(path, mmap_mode='c'), or make it before the fork."
    )


def _stays(array: WorkerContainer, notes: list[WorkerContainers]) -> bool:
    """Whether an array was there long before the last note, so that it is not of a single item."""
    since = [note.t for note in notes for each in note.containers if each.identity == array.identity]
    return notes[-1].t - min(since) >= STAYS_S


def _said(largest: WorkerContainer, workers: int, entries: int, epochs: int) -> tuple[str, str]:
    """The cause of what grows in workers, and what to do about it."""
    grows = f"{largest.holder} grows in {workers} workers, each by itself: {entries} entries so far. "
    if largest.asked and epochs > 1 and largest.answered < FEW_ANSWERS * largest.asked:
        never = f"One was asked {largest.asked} times and had the answer {largest.answered} times. "
        return "cache-per-worker", f"{grows}{never}Take the cache away, or ask it for what comes again."
    if largest.container == ARRAY:
        return "cache-per-worker", _by_each(largest, workers)
    if largest.frame[1] and largest.frame[0] != "<module>" and not largest.asked:
        return "buffer-per-worker", (
            f"{largest.holder} in {largest.frame[0]}() holds items that are ready in {workers} workers, {entries} of "
            "them together. If it is there to shuffle, shuffle what they are made from, such as paths or numbers, and "
            "load each when its turn has come: in another order than now."
        )
    return "cache-per-worker", (
        f"{grows}What one has loaded, the others load and keep again. Keep what is cached on disk (np.memmap), or in "
        "shared memory."
    )


def _place_of(measured: MeasuredMemory, held: WorkerContainer) -> WireFrame:
    """The line that fills a container, that calls the generator with it, or of the function that has the cache."""
    if held.asked:
        return held.frame
    if held.frame[1]:
        return called_at(held.frame) or filled_at(f"{held.holder}[...]", [held.frame])
    noted = next((each for each in measured.record.objects if each.attribute == held.holder), None)
    return _place(held.holder, noted.stack if noted else _site(measured), held.classes)


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


def _site(measured: MeasuredMemory) -> tuple[WireFrame, ...]:
    loader = measured.record.loader
    return measured.record.made.get(loader.loader, ()) if loader else ()


def _prefetched(measured: MeasuredMemory, table: HostTable) -> Iterator[MemoryFinding]:
    """More batches ahead than torch's own number."""
    loader = measured.record.loader
    if loader is None or not loader.settings.workers or loader.settings.prefetch_factor <= MIN_FACTOR:
        return
    settings = loader.settings
    gain = round(table.prefetched_bytes * (1 - MIN_FACTOR / settings.prefetch_factor))
    frames = [each for each in _site(measured) if is_user_code(each[1])]
    function, file, line = frames[-1] if frames else ("", "", 0)
    yield MemoryFinding(
        cause="prefetched-too-far",
        place="host",
        file=file,
        line=line or None,
        function=function,
        holder="",
        gain_bytes=gain,
        share=gain / max(table.together_bytes, 1),
        measured=False,
        bytes_a_step=0.0,
        words=f"{settings.workers} workers load {settings.prefetch_factor} batches ahead each; torch's default is "
        f"{MIN_FACTOR}. `workshop tune` measures whether fewer are as fast.",
        basis=f"estimated: {settings.ahead - settings.workers * MIN_FACTOR} batches fewer, times their size",
        process="worker",
    )
