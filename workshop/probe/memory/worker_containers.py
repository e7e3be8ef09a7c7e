"""Notes in each DataLoader's worker what it holds: in its copy of the dataset, in what it iterates, and in caches."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from time import monotonic  # the script may replace that of the module
from typing import Any

from workshop.probe.event_file import EventFile
from workshop.probe.internals import WORKER_LOOP, dataset_of_worker
from workshop.probe.memory.memory_notes import WorkerContainer, WorkerContainers
from workshop.probe.memory.process_memory import unshared
from workshop.probe.observations import WireFrame

EVERY_S, MIN_PAUSE = 0.5, 20
"""The pause between two looks is as long as so many looks take, at least."""

MAX_SEEN = 2000
SAMPLE = 8
"""So many of the newest entries are looked at: to look at an entry makes its page a worker's own."""


def watch_worker_containers(events: EventFile, module: Any) -> None:
    """Have each DataLoader's worker note the lengths; `module` is torch.utils.data._utils.worker."""
    work = getattr(module, WORKER_LOOP)

    def watched(*args: Any, **options: Any) -> None:
        over, watching = threading.Event(), None
        try:
            _leave_recording()
            dataset = dataset_of_worker(work, args, options)
            watching = threading.Thread(target=_watch, args=(events, dataset, over), daemon=True)
            watching.start()
        except Exception as error:
            events.lose(error)
        try:
            work(*args, **options)
        finally:
            over.set()
            if watching is not None:
                watching.join(EVERY_S)

    # A spawned worker finds the function by its name, so that the one in its place needs the same.
    watched.__module__, watched.__qualname__, watched.__name__ = work.__module__, work.__qualname__, work.__name__
    setattr(module, WORKER_LOOP, watched)


def _leave_recording() -> None:
    """A spawned worker follows tensors as any process does that begins; it has no training."""
    from workshop.probe import start

    if start.memory:
        start.memory.leave_worker()


def _watch(events: EventFile, dataset: Any, over: threading.Event) -> None:
    from workshop.probe.memory.worker_variables import worker_variables  # torch is still being loaded before

    parent = multiprocessing.parent_process()
    trainer = parent.pid if parent and parent.pid else os.getppid()
    loader, addresses = _counted(dataset)
    try:
        is_over, wait_s = False, 0.0
        while not is_over:  # the last note is of the end: an epoch may be short
            is_over, begun_s = over.wait(wait_s), monotonic()
            containers = tuple(_containers(worker_variables(dataset)))
            shares = tuple((name, unshared(each)) for name, each in addresses.items())
            events.write(WorkerContainers, trainer=trainer, containers=containers, loader=loader, unshared=shares)
            wait_s = max(EVERY_S, MIN_PAUSE * (monotonic() - begun_s))
    except Exception as error:
        events.lose(error)


def _counted(dataset: Any) -> tuple[int, dict[str, list[int]]]:
    """The number of the dataset, and where some objects of its attributes are: as in the process that was forked."""
    from workshop.probe import start

    counted = start.memory.objects.starting if start.memory else None
    return (counted.loader, counted.addresses) if counted and counted.dataset() is dataset else (-1, {})


def _containers(variables: list[Any]) -> Iterator[WorkerContainer]:
    from workshop.probe.memory.reached import reached

    places = reached(variables, MAX_SEEN)
    for place in places:
        with suppress(Exception):  # the worker has changed it meanwhile, or it is like nothing else
            if container := _container(place):
                yield container
    yield from _arrays_of_generators(places)


def _arrays_of_generators(places: list[Any]) -> Iterator[WorkerContainer]:
    """Yield the arrays that variables of what is iterated lead to, those of one variable together."""
    from workshop.probe.memory import host_objects as known

    found = dict[tuple[str, WireFrame], dict[int, Any]]()
    for place in places:
        array = known.own_array(place.value) if place.frame[1] and place.frame[0] != "<module>" else None
        if array is not None and array.nbytes >= known.MIN_ARRAY:
            function, file, _ = place.frame  # the line is where it has come to
            found.setdefault((place.name, (function, file, 0)), {})[id(array)] = array
    for (name, frame), arrays in found.items():
        length, size = (sum(each) for each in zip(*((len(one), one.nbytes) for one in arrays.values()), strict=True))
        yield WorkerContainer(name, frame, "ndarray", length, size, identity=min(arrays))


def _container(place: Any) -> WorkerContainer | None:
    from workshop.probe.memory import host_objects as known

    array = known.own_array(place.value) if place.name.startswith("dataset.") else None  # others may be of an item
    if array is not None and array.nbytes >= known.MIN_ARRAY:
        return WorkerContainer(place.name, place.frame, "ndarray", len(array), array.nbytes, classes=place.stack[1:])
    container = None if known.is_limited_cache(place.value) else known.opened(place.value)
    if container is None or container[0] < known.MIN_LENGTH:
        return None
    length, value = container
    newest = _newest(value)
    each = sum(map(_size, newest)) / len(newest) if newest else 0.0
    kind, frame = known.described(place)
    size = round(each * len(value) + sys.getsizeof(value))
    asked, answered = known.asked_of(place.value)
    return WorkerContainer(place.name, frame, kind, length, size, asked, answered, classes=place.stack[1:])


def _newest(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value[-SAMPLE:]
    if isinstance(value, dict):
        return [*islice(reversed(dict.values(value)), SAMPLE)]
    return []


def _size(entry: Any) -> int:
    """The bytes of an entry with what it contains, one level deep."""
    if isinstance(entry, (tuple, list)):
        return sys.getsizeof(entry) + sum(map(_size, entry[:SAMPLE]))
    size = getattr(entry, "nbytes", None)
    return size + 100 if isinstance(size, int) else object.__sizeof__(entry)  # pandas would look at every string
