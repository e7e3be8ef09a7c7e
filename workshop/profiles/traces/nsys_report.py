"""A report of NVIDIA's Nsight Systems, as `nsys export --type sqlite` writes it, as columns.

NVTX ranges become user annotations; calls of CUDA, kernels, copies and sets are as in a torch.profiler trace.
The steps are found by the ranges that `workshop record nsys` marks the phases with. The tables and their columns are
described in the documentation of Nsight Systems ("SQLite Schema Reference"); which of them there are depends on what
was recorded.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from workshop.probe.phases import Phase
from workshop.profiles.traces.decoding import TraceError
from workshop.profiles.traces.trace import EventColumns, Trace

HEADER = b"SQLite format 3\0"

RANGES = (59, 60)
"""The types of NVTX events that last: a range that was pushed, and one that was started."""

COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
MEMORY_KINDS = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}

# Each query yields: category, name or the number of its string, start, end, global thread or process, stream,
# correlation, device, bytes.
_CALLS = """
SELECT 'cuda_runtime', nameId, start, end, globalTid, -1, correlationId, -1, 0 FROM CUPTI_ACTIVITY_KIND_RUNTIME
"""
_KERNELS = """
SELECT 'kernel', demangledName, start, end, globalPid, streamId, correlationId, deviceId, 0
FROM CUPTI_ACTIVITY_KIND_KERNEL
"""
_COPIES = """
SELECT 'gpu_memcpy', copyKind || ' ' || srcKind || ' ' || dstKind, start, end, globalPid, streamId, correlationId,
    deviceId, bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY
"""
_SETS = """
SELECT 'gpu_memset', 'Memset (Device)', start, end, globalPid, streamId, correlationId, deviceId, bytes
FROM CUPTI_ACTIVITY_KIND_MEMSET
"""
_ANNOTATIONS = f"""
SELECT 'user_annotation', coalesce(text, textId), start, end, globalTid, -1, -1, -1, 0 FROM NVTX_EVENTS
WHERE end IS NOT NULL AND eventType IN {RANGES}
"""
_QUERIES = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": _CALLS,
    "CUPTI_ACTIVITY_KIND_KERNEL": _KERNELS,
    "CUPTI_ACTIVITY_KIND_MEMCPY": _COPIES,
    "CUPTI_ACTIVITY_KIND_MEMSET": _SETS,
    "NVTX_EVENTS": _ANNOTATIONS,
}

_Event = tuple[str, Any, int, int, int, int, int, int, int]


def is_report(path: Path) -> bool:
    """Return whether a file is an SQLite file."""
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER


def read(path: Path) -> Trace:
    """Read a report.

    Raises:
        TraceError: the file is not such a report, is damaged, or has neither ranges nor anything of a GPU.
    """
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
            events = list(_events(path, database))
    except sqlite3.DatabaseError as error:
        raise TraceError(f"{path} is no report of nsys, or is damaged: {error}") from None
    if not events:
        raise TraceError(f"{path} has neither NVTX ranges nor anything of a GPU: what was recorded?")
    events += _steps(events)
    numbers: list[defaultdict[Any, int]] = [defaultdict(count().__next__) for _ in range(4)]
    cats, names, processes, threads = numbers
    rows = [
        (at, names[name], cats[cat], processes[place >> 24], threads[place], *where, -1, -1, start, end - start)
        for at, (cat, name, start, end, place, *where) in enumerate(events)
    ]
    columns: list[Any] = list(np.array(rows, np.int64).T)
    columns.insert(-2, np.full(len(rows), -1.0))  # the bandwidth, before the times
    return Trace(path, EventColumns(*columns), list(names), list(cats))


def _events(path: Path, database: sqlite3.Connection) -> Iterator[_Event]:
    """Yield the events, with their names in words and a duration that is not negative."""
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "StringIds" not in tables:
        raise TraceError(f"{path} is no report of nsys: make one with nsys export --type sqlite REPORT.nsys-rep")
    strings: dict[int, str] = dict(database.execute("SELECT id, value FROM StringIds"))
    for table, query in _QUERIES.items():
        for cat, name, start, end, *rest in database.execute(query) if table in tables else ():
            words = _copy(name) if cat == "gpu_memcpy" else strings.get(name, str(name))
            yield cat, words, start, max(end, start), *(-1 if value is None else value for value in rest)


def _copy(kinds: str) -> str:
    """Return the name of a copy as torch.profiler writes it, from its kind and the kinds of memory."""
    copied, source, target = (int(kind) for kind in kinds.split())
    between = f"{MEMORY_KINDS.get(source, 'Unknown')} -> {MEMORY_KINDS.get(target, 'Unknown')}"
    return f"Memcpy {COPY_KINDS.get(copied, 'Unknown')} ({between})"


def _steps(events: list[_Event]) -> Iterator[_Event]:
    """Yield the steps, as torch.profiler marks them: a step ends with that of the optimizer, after a backward pass.

    There are none where the phases are not marked.
    """
    marked = set(map(str, Phase))
    phases: dict[int, list[_Event]] = defaultdict(list)
    for event in events:
        if event[0] == "user_annotation" and event[1] in marked:
            phases[event[4]].append(event)
    for place, found in phases.items():
        begin, backward, number = None, False, 0
        for _, name, start, end, *_ in sorted(found, key=lambda event: event[2]):
            begin = start if begin is None else begin
            backward |= name == str(Phase.BACKWARD)
            if backward and name == str(Phase.OPTIMIZER):
                yield "user_annotation", f"ProfilerStep#{number}", begin, end, place, -1, -1, -1, 0
                begin, backward, number = end, False, number + 1
