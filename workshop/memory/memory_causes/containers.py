"""Containers of Python objects: those that become longer, and the process with them, and large ones."""

from collections import defaultdict
from collections.abc import Iterator

from workshop.memory.assignments import LRU_CACHE, is_limited, object_filled_at
from workshop.memory.growth import STEPS, ProcessGrowth, growing_lines, process_growth
from workshop.memory.memory_findings import MIN_SHARE, MemoryFinding
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.dataset_attributes import MIN_OBJECTS
from workshop.probe.memory.holder_names import GRAPH
from workshop.probe.memory.memory_notes import HostObject

MIN_ENTRIES, MIN_GROWN = 8, 16 << 20
"""A container has become longer by so many entries, or larger by so many bytes."""

EXPLAINS = 0.2
"""It explains this share of what the process grows by, at least."""

FEW_ANSWERS = 0.02
"""A cache that has the answer to a smaller share of what it is asked is of no use, whether the process grows or not."""

LARGE = 0.08
"""Python objects that stay are told of if arrays would take less by this share of all memory."""

QUEUES = ("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue", "deque")


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield useless caches, and containers that explain why the process grows; those of followed tensors aside."""
    growth = process_growth(measured.host.looks, measured.reports)
    followed = [each.holder.removeprefix(GRAPH) for each in growing_lines(measured.record)]
    followed += [each.holder for each in measured.record.graphs]
    if not measured.record.workers:  # to those, they are shared objects
        yield from _objects(measured)
    looks: defaultdict[object, list[HostObject]] = defaultdict(list)
    for each in measured.record.host_objects:
        looks[each.holder, each.holder_stack[0][:2], each.container].append(each)
    for of_one in looks.values():
        first, last = of_one[0], of_one[-1]
        is_told = last.has_limit or any(each.startswith(last.holder) for each in followed if each)
        if is_told or is_limited(f"{last.holder}[...]", last.holder_stack):
            continue
        is_useless = measured.record.epochs > 1 and last.asked > 0 and last.answered < FEW_ANSWERS * last.asked
        if (growth or is_useless) and (finding := _grown(measured, growth, first, last)):
            yield finding


def _objects(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield large containers of many objects, as they were when last seen."""
    together = measured.host.most.together if measured.host.most else 0
    seen: defaultdict[object, list[HostObject]] = defaultdict(list)
    for each in measured.record.host_objects:
        seen[each.holder, each.holder_stack[0][:2]].append(each)
    for held in measured.record.last_host_objects:
        same = seen[held.holder, held.holder_stack[0][:2]]
        stays = len({each.step for each in same}) > 1 and {each.length for each in same} == {held.length}
        if held.objects < MIN_OBJECTS or held.spare_bytes < LARGE * together or not stays:
            continue
        function, file, line = object_filled_at(held)
        yield MemoryFinding(
            cause="python-objects",
            place="host",
            file=file,
            line=line or None,
            function=function,
            holder=held.holder,
            gain_bytes=held.spare_bytes,
            share=held.spare_bytes / max(together, 1),
            measured=False,
            bytes_a_step=0.0,
            words=f"{held.holder}, a {held.container}, has {held.objects:,} Python objects. If nothing reads it any "
            "more, delete it; else keep numbers in an array, and texts in one text and an array of where each begins.",
            basis="estimated from a sample: what arrays would take less",
        )


def _grown(
    measured: MeasuredMemory, growth: ProcessGrowth | None, first: HostObject, last: HostObject
) -> MemoryFinding | None:
    entries, steps = last.length - first.length, last.step - first.step
    if (first.identity, first.pid) != (last.identity, last.pid):
        return None  # it was made anew, as by each step or epoch
    kept = [each for each in first.first_entries if each in last.first_entries]
    if 2 * len(kept) < len(first.first_entries):
        return None
    is_longer = entries >= MIN_ENTRIES or (entries > 0 and last.bytes - first.bytes >= MIN_GROWN)
    if not is_longer or steps <= 0:
        return None
    rate = last.bytes * entries / last.length / steps
    most = measured.host.most
    if most is None or rate * STEPS < MIN_SHARE * most.together or (growth and rate < EXPLAINS * growth.bytes_a_step):
        return None
    function, file, line = object_filled_at(last, grows=True)
    grows = (
        f"{entries / steps:.1f} entries a step" if 10 * entries > steps else f"an entry in {steps / entries:.0f} steps"
    )
    what = f"{last.holder}, a {last.container}, grows by {grows}, and has {last.length}. "
    if last.container == LRU_CACHE:
        words = f"It was asked {last.asked} times and had the answer {last.answered} times. Give lru_cache a limit "
        words += "(maxsize=...), or take it away if the same is not asked for again."
    elif "_hooks" in last.holder:
        words = (
            "Hooks are registered again and again. Keep what register_forward_hook() returns, and call its remove()."
        )
    elif last.container in QUEUES:
        words = "What fills it is faster than what takes from it. "
        words += (
            "If its oldest entries are not used any more, give it a largest length: deque(maxlen=...) drops them."
            if last.container == "deque"
            else "If another thread takes from it, give it a largest length, such as maxsize=4: what fills it then "
            "waits. A thread that empties what it fills itself would wait for ever."
        )
    else:
        words = "Keep only what is used of it later: numbers, or the last few entries; or write the rest to disk."
    return MemoryFinding(
        cause="objects-kept",
        place="host",
        file=file,
        line=line or None,
        function=function,
        holder=last.holder,
        gain_bytes=last.bytes,
        share=min(last.bytes / max(most.together, 1), 1.0),
        measured=False,
        bytes_a_step=rate,
        words=what + words,
        basis="estimated from the size of some entries" + ("; the process was seen to grow" if growth else ""),
    )
