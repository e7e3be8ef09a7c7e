"""Measures what a forked process comes to own by going through an attribute of the dataset, as workers do."""

import gc
import os
import select
import signal
from typing import Any

import torch

from workshop.probe.event_file import EventFile
from workshop.probe.memory.memory_notes import TouchedAttribute
from workshop.probe.memory.process_memory import private_bytes
from workshop.probe.memory.python_objects import count_objects
from workshop.probe.trials.copy_room import ensure_free

PATIENCE_S = 20.0
"""A forked process that takes longer is killed: the script waits for it."""


def note_touched(loader: int, name: str, value: Any, events: EventFile) -> None:
    """Go through an attribute in a forked process, and note how much more memory is private to it then."""
    try:
        ensure_free(count_objects(value).bytes, torch.device("cpu"))
        touched, untouched = _in_fork(value), _in_fork(None)
        events.write(TouchedAttribute, attribute=name, loader=loader, private_bytes=touched, untouched_bytes=untouched)
    except (OSError, ValueError, MemoryError) as error:
        events.write(
            TouchedAttribute,
            attribute=name,
            loader=loader,
            private_bytes=0,
            untouched_bytes=0,
            error=f"{type(error).__name__}: {error}",
        )


def _in_fork(value: Any) -> int:
    """The bytes that become private to a forked process as it touches each object in something.

    Raises:
        OSError: it cannot be forked.
        ValueError: it has failed.
    """
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            gc.disable()
            before = private_bytes()
            _touch(value)
            os.write(writes, str(private_bytes() - before).encode())
        finally:
            os._exit(0)  # nothing that the script has registered for its end
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        if not poll.poll(1000 * PATIENCE_S):
            os.kill(child, signal.SIGKILL)  # it then says nothing, which is no number
        said = pipe.read()
    os.waitpid(child, 0)
    return int(said)


def _touch(value: Any, depth: int = 0) -> None:
    """Take and drop a reference to each object, as any use of it does."""
    if depth > 3:
        return
    if isinstance(value, dict):
        for key, each in value.items():
            key  # noqa: B018
            _touch(each, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            _touch(each, depth + 1)
    elif getattr(getattr(value, "dtype", None), "hasobject", False) and hasattr(value, "flat"):
        for each in value.flat:
            _touch(each, depth + 1)
