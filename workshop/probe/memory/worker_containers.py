"""Notes in each DataLoader's worker what it holds: in its copy of the dataset, in what it iterates, and in caches."""

import multiprocessing
import os
import threading
from time import monotonic  # the script may replace that of the module
from typing import Any

from workshop.probe.event_file import EventFile
from workshop.probe.internals import WORKER_LOOP, dataset_of_worker
from workshop.probe.memory.memory_notes import WorkerContainers
from workshop.probe.memory.process_memory import unshared

MIN_PAUSE_S, MIN_PAUSE_IN_LOOKS = 0.5, 20
"""The pause between two looks, at least: seconds, and how many times as long as a look."""


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
                watching.join(MIN_PAUSE_S)

    # A spawned worker finds the function by its name, so that the one in its place needs the same.
    watched.__module__, watched.__qualname__, watched.__name__ = work.__module__, work.__qualname__, work.__name__
    setattr(module, WORKER_LOOP, watched)


def _leave_recording() -> None:
    """A spawned worker follows tensors as any process does that begins; it has no training."""
    from workshop.probe import start

    if start.memory:
        start.memory.leave_worker()


def _watch(events: EventFile, dataset: Any, over: threading.Event) -> None:
    from workshop.probe.memory.host_objects import objects_of_worker  # torch is still being loaded before

    parent = multiprocessing.parent_process()
    trainer = parent.pid if parent and parent.pid else os.getppid()
    loader, addresses = _counted(dataset)
    try:
        is_over, wait_s = False, 0.0
        while not is_over:  # the last note is of the end: an epoch may be short
            is_over, begun_s = over.wait(wait_s), monotonic()
            containers = tuple(objects_of_worker(dataset))
            shares = tuple((name, unshared(each)) for name, each in addresses.items())
            events.write(WorkerContainers, trainer=trainer, containers=containers, loader=loader, unshared=shares)
            wait_s = max(MIN_PAUSE_S, MIN_PAUSE_IN_LOOKS * (monotonic() - begun_s))
    except Exception as error:
        events.lose(error)


def _counted(dataset: Any) -> tuple[int, dict[str, list[int]]]:
    """The number of the dataset, and where some objects of its attributes are: as in the process that was forked."""
    from workshop.probe import start

    counted = start.memory.objects.starting if start.memory else None
    return (counted.loader, counted.addresses) if counted and counted.dataset() is dataset else (-1, {})
