"""Python objects of a dataset that workers share until each touches them, and copies the page that they are on."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from workshop.memory.assignments import assignment_of
from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_lines import UNKNOWN
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import MIN_OBJECTS, AttributeObjects
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

MIN_UNSHARED = 0.03
"""Share of an attribute's objects, at least, that workers have made their own: fewer are beside what they use."""


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
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
        made = f" of the DataLoader that line {line} makes" if line else ""
        are_many = largest.objects >= MIN_OBJECTS
        content = f"{largest.objects:,} Python objects" if are_many else f"{largest.bytes >> 20} MiB"
        about = {"container": largest.container, "made": made, "content": content, "workers": largest.workers}
        about |= {"unshared": unshared, "mib": a_copy / 2**20, "here_mib": here / 2**20}
        yield MemoryFinding(
            OF_FORKED if is_forked else OF_OTHERS_AND_HERE if here else OF_OTHERS,
            "host",
            a_copy * largest.workers + here,
            measured.host.most_bytes,
            place_of_attribute(largest.attribute, largest.stack, largest.classes),
            largest.attribute,
            measured=is_forked and not here,
            process="worker",
            figures=about,
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
        if each.attribute == attribute and (each.pid, each.loader) in loaders and not each.error
    ]
    notes = [note for of_worker in measured.record.workers.values() for note in of_worker]
    shares = [dict(each.unshared).get(attribute, 0.0) for each in notes if (each.trainer, each.loader) in loaders]
    return max(shares, default=0.0), max(sizes, default=None)


def place_of_attribute(name: str, stack: Sequence[WireFrame], classes: Sequence[WireFrame]) -> WireFrame:
    """Return where an attribute of a dataset is filled, if the source shows it; else where its DataLoader is made."""
    frames = [each for each in stack if is_user_code(each[1])]
    return assignment_of(name, [UNKNOWN, *classes]) or next(reversed(frames), UNKNOWN)
