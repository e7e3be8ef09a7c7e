"""What workers take: copies of Python objects that a fork has shared, caches of their own, batches loaded ahead."""

from collections import defaultdict
from collections.abc import Iterator

from workshop.memory.assignments import assignment_of
from workshop.memory.host_table import HostTable, grown_bytes, host_table
from workshop.memory.memory_findings import MemoryFinding
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.dataset_attributes import MIN_OBJECTS
from workshop.probe.memory.memory_notes import AttributeObjects, WorkerAttributes
from workshop.probe.observations import WireFrame
from workshop.probe.user_code import is_user_code

MIN_FACTOR = 2
"""torch's own number of batches that each worker loads ahead."""

MIN_UNSHARED = 0.03
"""So few objects of an attribute may be on a page with others that workers use."""

MIN_LENGTH_GROWTH = 8
"""A cache has become longer by so many entries."""


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
        function, file, line = _place(largest.attribute, largest.stack)
        made = [each for each in largest.stack if is_user_code(each[1])]
        of = f" of the DataLoader that line {made[-1][2]} makes" if made else ""
        yield MemoryFinding(
            cause="shared-objects",
            place="host",
            file=file,
            line=line or None,
            function=function,
            holder=largest.attribute,
            gain_bytes=size * largest.workers,
            share=size * largest.workers / max(table.together_bytes, 1),
            measured=largest.start_method == "fork",
            bytes_a_step=0.0,
            words=f"{largest.attribute}, a {largest.container}{of}, {_what(largest)}. {words}",
            basis=f"{basis}, times {largest.workers} workers",
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
        f"{unshared:.0%} of it. Keep it as one numpy array or tensor, which is shared."
    )
    return size, words, f"measured: a forked process that goes through it once comes to own {size / 2**20:.0f} MiB"


def _what(noted: AttributeObjects) -> str:
    """What an attribute has: many objects, or arrays."""
    return f"has {noted.objects} Python objects" if noted.objects >= MIN_OBJECTS else f"has {noted.bytes >> 20} MiB"


def _pickled(largest: AttributeObjects) -> tuple[int, str, str]:
    """What a worker gets that is not forked."""
    words = "Each worker that is not forked gets a copy of its own. Keep it as one tensor, which they share."
    return largest.bytes, words, "estimated from the size of some of them"


def _place(name: str, stack: tuple[WireFrame, ...]) -> WireFrame:
    """Where an attribute is filled, if the source shows it; else where the DataLoader is made."""
    frames = [each for each in stack if is_user_code(each[1])]
    for _, file, _ in reversed(frames):
        if at := assignment_of(f"self.{name.rpartition('.')[2]}", file, "__init__"):
            return at.function, file, at.number
    return frames[-1] if frames else ("", "", 0)


def _caches(measured: MeasuredMemory, table: HostTable) -> Iterator[MemoryFinding]:
    """Containers of the dataset that become longer in the workers: each has its own."""
    lengths: dict[str, list[tuple[int, int, int]]] = {}
    workers = _at_once(measured)
    for notes in workers.values():
        first, last = (
            {name: (length, size) for name, _, length, size in each.attributes} for each in (notes[0], notes[-1])
        )
        for name, (length, size) in last.items():
            before, size_before = first.get(name, (0, 0))
            lengths.setdefault(name, []).append((length - before, size - size_before, length))
    for name, of_workers in lengths.items():
        longer = [each for each in of_workers if each[0] >= MIN_LENGTH_GROWTH]
        if not longer or len(longer) < max(len(of_workers) // 2, 1):
            continue
        estimated = sum(size for _, size, _ in longer)
        measured_bytes = sum(max(grown_bytes(measured, pid), 0) for pid in workers)
        size = min(measured_bytes, estimated) if measured_bytes else estimated
        noted = next((each for each in measured.record.objects if each.attribute == name), None)
        function, file, line = _place(name, noted.stack if noted else _site(measured))
        entries = sum(each[0] for each in longer)
        yield MemoryFinding(
            cause="cache-per-worker",
            place="host",
            file=file,
            line=line or None,
            function=function,
            holder=name,
            gain_bytes=size,
            share=size / max(table.together_bytes, 1),
            measured=bool(measured_bytes),
            bytes_a_step=size / max(_steps_of(measured, workers), 1),
            words=f"{name} grows in {len(longer)} workers, each by itself: {entries} entries so far. What one has "
            "loaded, the others load and keep again. Keep what is cached on disk (np.memmap), or in shared memory.",
            basis="measured: what the workers have grown by" if measured_bytes else "estimated from its newest entries",
            process="worker",
        )


def _at_once(measured: MeasuredMemory) -> dict[int, list[WorkerAttributes]]:
    """What those workers have noted that were there at the same time, when they had most by themselves."""
    workers = measured.record.workers
    private = [
        {pid: memory.private for pid, memory in each.processes.items() if pid in workers}
        for each in measured.host.looks
    ]
    most = max(private, key=lambda each: sum(each.values()), default={})
    return {pid: workers[pid] for pid in most}


def _steps_of(measured: MeasuredMemory, workers: dict[int, list[WorkerAttributes]]) -> int:
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
