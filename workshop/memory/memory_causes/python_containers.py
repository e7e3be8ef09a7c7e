"""Containers of Python objects: those that become longer, and the process with them, and large ones."""

from collections import defaultdict
from collections.abc import Iterator

from workshop.memory.assignments import is_limited, object_filled_at
from workshop.memory.growth import STEPS, ProcessGrowth, growing_lines, process_growth
from workshop.memory.memory_findings import MIN_SHARE, MemoryCause, MemoryFinding
from workshop.memory.memory_record import MemoryRecord
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import LRU_CACHE, MIN_OBJECTS, HeldObject, HeldObjects

GROWS = "{holder}, a {container}, grows by {pace}, and has {length}. "
ESTIMATED = "estimated from the size of some entries{seen}"


def _grows(words: str) -> MemoryCause:
    return MemoryCause("objects-kept", GROWS + words, estimated=ESTIMATED, grows=True)


CACHE_GROWS = _grows(
    "It was asked {asked} times and had the answer {answered} times. Give lru_cache a limit (maxsize=...), or take it "
    "away if the same is not asked for again."
)
HOOKS_GROW = _grows(
    "Hooks are registered again and again. Keep what register_forward_hook() returns, and call its remove()."
)
DEQUE_GROWS = _grows(
    "What fills it is faster than what takes from it. If its oldest entries are not used any more, give it a largest "
    "length: deque(maxlen=...) drops them."
)
QUEUE_GROWS = _grows(
    "What fills it is faster than what takes from it. If another thread takes from it, give it a largest length, such "
    "as maxsize=4: what fills it then waits. A thread that empties what it fills itself would wait for ever."
)
OBJECTS_KEPT = _grows(
    "Keep only what is used of it later: numbers, or the last few entries; or write the rest to disk."
)
PYTHON_OBJECTS = MemoryCause(
    "python-objects",
    "{holder}, a {container}, has {objects:,} Python objects. If nothing reads it any more, delete it; else keep "
    "numbers in an array, and texts in one text and an array of where each begins.",
    estimated="estimated from a sample: what arrays would take less",
)

OF_TYPES = {
    LRU_CACHE: CACHE_GROWS,
    "deque": DEQUE_GROWS,
    **dict.fromkeys(("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue"), QUEUE_GROWS),
}

MIN_ENTRIES, MIN_GROWN = 8, 16 << 20
"""Entries by which a container has become longer, or bytes by which it is larger, at least."""

MIN_SHARE_OF_GROWTH = 0.2
"""Share of what the process grows by, at least, that a container explains."""

MIN_ANSWERED = 0.02
"""Share of what a cache is asked, at least, to which it has the answer: else it is of no use."""

MIN_SHARE_OF_OBJECTS = 0.08
"""Share of all memory, at least, that arrays would take less than Python objects that stay."""


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield useless caches, and containers that explain why the process grows; those of followed tensors aside."""
    record = measured.record
    growth = process_growth(measured.host.looks, measured.reports)
    followed = [each.holder for each in growing_lines(record)] + [each.holder for each in record.graphs]
    if not record.workers:  # to those, they are shared objects
        yield from _objects(measured)
    for (then, first), *_, (now, last) in (each for each in _seen(record).values() if len(each) > 1):
        is_told = last.has_limit or any(each.startswith(last.holder) for each in followed if each)
        if is_told or then.pid != now.pid or is_limited(f"{last.holder}[...]", last.stack):
            continue
        is_useless = record.epochs > 1 and last.asked > 0 and last.answered < MIN_ANSWERED * last.asked
        if (growth or is_useless) and (finding := _grown(measured, growth, first, last, now.step - then.step)):
            yield finding


def _seen(record: MemoryRecord) -> dict[object, list[tuple[HeldObjects, HeldObject]]]:
    """Each look at which a variable led to something of the same type, with what it was."""
    seen: defaultdict[object, list[tuple[HeldObjects, HeldObject]]] = defaultdict(list)
    for look in record.held:
        for each in look.objects:
            seen[each.holder, each.stack[0][:2], each.container].append((look, each))
    return seen


def _objects(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield large containers of many objects, as they were when last seen."""
    seen = _seen(measured.record)
    for held in measured.record.last_held:
        same = seen[held.holder, held.stack[0][:2], held.container]
        stays = len({look.step for look, _ in same}) > 1 and {each.length for _, each in same} == {held.length}
        is_much = held.spare_bytes >= MIN_SHARE_OF_OBJECTS * measured.host.most_bytes
        if held.objects >= MIN_OBJECTS and is_much and stays:
            at, about = object_filled_at(held), {"container": held.container, "objects": held.objects}
            whole = measured.host.most_bytes
            yield MemoryFinding(PYTHON_OBJECTS, "host", held.spare_bytes, whole, at, held.holder, False, figures=about)


def _grown(
    measured: MeasuredMemory, growth: ProcessGrowth | None, first: HeldObject, last: HeldObject, steps: int
) -> MemoryFinding | None:
    entries = last.length - first.length
    kept = [each for each in first.first_entries if each in last.first_entries]
    if first.identity != last.identity or 2 * len(kept) < len(first.first_entries):
        return None  # it was made anew, as by each step or epoch
    is_longer = entries >= MIN_ENTRIES or (entries > 0 and last.bytes - first.bytes >= MIN_GROWN)
    if not is_longer or steps <= 0:
        return None
    rate, most = last.bytes * entries / last.length / steps, measured.host.most_bytes
    explains = not growth or rate >= MIN_SHARE_OF_GROWTH * growth.bytes_a_step
    if not most or rate * STEPS < MIN_SHARE * most or not explains:
        return None
    pace = (
        f"{entries / steps:.1f} entries a step" if 10 * entries > steps else f"an entry in {steps / entries:.0f} steps"
    )
    kind = OF_TYPES.get(last.container, HOOKS_GROW if "_hooks" in last.holder else OBJECTS_KEPT)
    about = {"container": last.container, "length": last.length, "asked": last.asked, "answered": last.answered}
    about |= {"pace": pace, "seen": "; the process was seen to grow" if growth else ""}
    at = object_filled_at(last, grows=True)
    return MemoryFinding(kind, "host", last.bytes, most, at, last.holder, False, rate, figures=about)
