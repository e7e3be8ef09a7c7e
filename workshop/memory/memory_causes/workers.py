"""What workers take: copies of Python objects that a fork has shared, caches of their own, batches loaded ahead."""

from collections.abc import Iterator

from workshop.memory.assignments import assignment_of
from workshop.memory.host_table import HostTable, host_table
from workshop.memory.memory_findings import MemoryFinding
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import AttributeObjects
from workshop.probe.observations import WireFrame
from workshop.probe.user_code import is_user_code

MIN_FACTOR = 2
"""torch's own number of batches that each worker loads ahead."""

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
    loader = measured.record.loader
    if loader is None:
        return
    workers, spawns = loader.settings.workers, loader.settings.start_method == "spawn"
    for each in measured.record.objects:
        touched = measured.record.touched.get(each.attribute)
        is_measured = touched is not None and not touched.error and not spawns
        size = max(touched.private_bytes - touched.untouched_bytes, 0) if touched and is_measured else each.bytes
        if not spawns and touched is None:  # nothing was tried
            continue
        function, file, line = _place(each)
        grown = sum(one.grown_bytes for one in table.workers)
        so_far = f" The workers have grown by {grown / 2**20:.0f} MiB together so far." if grown > 0 else ""
        why = (
            "Each worker that is spawned gets a copy of its own."
            if spawns
            else "A worker that only reads such an object changes its count of references, and so copies its page."
        )
        yield MemoryFinding(
            cause="shared-objects",
            place="host",
            file=file,
            line=line or None,
            function=function,
            holder=each.attribute,
            gain_bytes=size * workers,
            share=size * workers / max(table.together_bytes, 1),
            measured=is_measured,
            bytes_a_step=0.0,
            words=f"{each.attribute}, a {each.container}, has {each.objects} Python objects. {why}{so_far} Keep it as "
            "one numpy array or tensor, which is shared.",
            basis=f"measured: a forked process that goes through it once comes to own {size / 2**20:.0f} MiB; "
            f"times {workers} workers"
            if is_measured
            else f"estimated from the size of some of them, times {workers} workers",
            process="worker",
        )


def _place(noted: AttributeObjects) -> WireFrame:
    """Where the attribute is filled, if the source shows it; else where the DataLoader is made."""
    frames = [each for each in noted.stack if is_user_code(each[1])]
    for _, file, _ in reversed(frames):
        if at := assignment_of(f"self.{noted.attribute.rpartition('.')[2]}", file, "__init__"):
            return at.function, file, at.number
    return frames[-1] if frames else ("", "", 0)


def _caches(measured: MeasuredMemory, table: HostTable) -> Iterator[MemoryFinding]:
    """Containers of the dataset that become longer in the workers: each has its own."""
    lengths: dict[str, list[tuple[int, int, int]]] = {}
    for notes in measured.record.workers.values():
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
        grown = [each.grown_bytes for each in table.workers if each.grown_bytes > 0]
        estimated = sum(size for _, size, _ in longer)
        measured_bytes = sum(grown)
        size = min(measured_bytes, estimated) if measured_bytes else estimated
        objects = next((each for each in measured.record.objects if each.attribute == name), None)
        function, file, line = (
            _place(objects) if objects else _place(AttributeObjects(0, 0, 0, name, "", 0, 0, _site(measured)))
        )
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
            bytes_a_step=size / max(sum(each.steps for each in measured.reports), 1),
            words=f"{name} grows in {len(longer)} workers, each by itself: {entries} entries so far. What one has "
            "loaded, the others load and keep again. Keep what is cached on disk (np.memmap), or in shared memory.",
            basis="measured: what the workers have grown by" if measured_bytes else "estimated from its newest entries",
            process="worker",
        )


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
