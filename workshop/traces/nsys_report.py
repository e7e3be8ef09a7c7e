"""A report of NVIDIA's Nsight Systems, as `nsys export --type sqlite` writes it, as columns.

NVTX ranges become user annotations; calls of CUDA, kernels, copies, sets and synchronisations are as in a
torch.profiler trace. The steps are found by the ranges that `workshop record nsys` marks the phases with. The tables
and their columns are described in the documentation of Nsight Systems ("SQLite Schema Reference"); which of them there
are depends on what was recorded.
"""

import sqlite3
from collections import defaultdict
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workshop.probe.phases import Phase
from workshop.traces.decoding import TraceError
from workshop.traces.event_columns import EventColumns
from workshop.traces.intervals import Ints
from workshop.traces.trace import Trace

BLOCK_ROWS = 1 << 15
"""Rows that are fetched at once: the objects of a row take much memory."""

NO_STREAM = 2**32 - 1
"""CUPTI's number for the stream of a synchronisation that waits for none in particular."""

RECORDS = """
CREATE TEMP TABLE record AS
    SELECT globalPid, contextId, eventId, correlationId, streamId FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT;
CREATE INDEX temp.record_of_event ON record (globalPid, contextId, eventId, correlationId);
"""
"""Makes a table of the calls that recorded a CUDA event, in which those of one event are quickly found."""

LAST_RECORD = """(
    SELECT record.{} FROM record
    WHERE syncType IN (1, 2) AND record.globalPid = event.globalPid AND record.contextId = event.contextId
        AND record.eventId = event.eventId AND record.correlationId <= event.correlationId
    ORDER BY record.correlationId DESC LIMIT 1
)"""
"""A column of the call that a synchronisation waits for: the last one that recorded the same event before.

Correlations are numbered in the order of the calls.
"""

COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
MEMORY_KINDS = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}
SYNC_KINDS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}


def _integer(column: str) -> str:
    """Return an SQL expression that is an integer, whatever a damaged file has in a column."""
    return f"ifnull(CAST({column} AS INTEGER), -1)"


class _Table(NamedTuple):
    """A table of events, and which of its columns are read."""

    cat: str
    name: str
    """An SQL expression: the name, the number of its string, or of the kind of event."""
    place: str
    """The column of the global number of the thread or process."""
    stream: str = "-1"
    correlation: str = "-1"
    device: str = "-1"
    bytes: str = "0"
    waits_on: str = "-1"
    waits_on_stream: str = "-1"
    where: str = "end IS NOT NULL"


_COPY = " || ' ' || ".join(map(_integer, ("copyKind", "srcKind", "dstKind")))
_ON_DEVICE = ("globalPid", "streamId", "correlationId", "deviceId")
_TABLES = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": _Table("cuda_runtime", "nameId", "globalTid", correlation="correlationId"),
    "CUPTI_ACTIVITY_KIND_KERNEL": _Table("kernel", "demangledName", *_ON_DEVICE),
    "CUPTI_ACTIVITY_KIND_MEMCPY": _Table("gpu_memcpy", _COPY, *_ON_DEVICE, "bytes"),
    "CUPTI_ACTIVITY_KIND_MEMSET": _Table("gpu_memset", "'Memset (Device)'", *_ON_DEVICE, "bytes"),
    # A time of 0 stands for one that is not known.
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": _Table("cuda_sync", "syncType", *_ON_DEVICE, where="end > 0"),
    # Of the NVTX events, those last that are a range that was pushed (59), or started (60).
    "NVTX_EVENTS": _Table(
        "user_annotation", "coalesce(text, textId)", "globalTid", where="end IS NOT NULL AND eventType IN (59, 60)"
    ),
}


_CATS = [table.cat for table in _TABLES.values()]
_ANNOTATION = _CATS.index("user_annotation")
_OF_A_CALL = ("stream", "correlation", "device", "bytes", "waits_on", "waits_on_stream")
_COLUMNS = ("name", "cat", "pid", "tid", *_OF_A_CALL, "ts", "dur")
_OF_A_PHASE = ("name", "pid", "tid", "ts", "dur")


def is_report(path: Path) -> bool:
    """Return whether a file is an SQLite file."""
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def read(path: Path) -> Trace:
    """Read a report.

    Raises:
        TraceError: the file is not such a report, is damaged, or has neither ranges nor anything of a GPU.
    """
    reader = _Reader()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = lambda text: text.decode(errors="replace")
            reader.read(path, database)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # a message of SQLite may quote damaged text
        raise TraceError(f"{path} is no report of nsys, or is damaged: {' '.join(str(error).split())}") from None
    if not len(reader.columns()["ts"]):
        raise TraceError(f"{path} has neither NVTX ranges nor anything of a GPU: what was recorded?")
    reader.add_steps()
    columns = reader.columns()
    rows = len(columns["ts"])
    unknown = dict.fromkeys(("external", "sequence", "forward_thread", "stack"), np.broadcast_to(-1, rows))
    events = EventColumns(index=np.arange(rows), bandwidth=np.broadcast_to(-1.0, rows), **unknown, **columns)
    damage = (f"{reader.lost} event{'s' * (reader.lost != 1)} of {path} could not be read",) if reader.lost else ()
    return Trace(path, events, list(reader.names), _CATS, damage=damage)


class _Reader:
    """Reads the tables of a database into columns."""

    def __init__(self) -> None:
        self.lost = 0
        # Each name, process and thread gets the next number when it is first looked up.
        self.names: defaultdict[str, int] = defaultdict(count().__next__)
        self._processes: defaultdict[int, int] = defaultdict(count().__next__)
        self._threads: defaultdict[int, int] = defaultdict(count().__next__)
        self._blocks = [np.empty((len(_COLUMNS), 0), np.int64)]
        self._strings: dict[Any, Any] = {}

    def columns(self) -> dict[str, Ints]:
        """Return the columns of all events by name."""
        self._blocks = [np.concatenate(self._blocks, axis=1)]
        return dict(zip(_COLUMNS, self._blocks[0], strict=True))

    def read(self, path: Path, database: sqlite3.Connection) -> None:
        """Append the events of all tables."""
        there = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "StringIds" not in there:
            raise TraceError(f"{path} is no report of nsys: make one with nsys export --type sqlite REPORT.nsys-rep")
        self._strings = dict(database.execute("SELECT id, value FROM StringIds"))
        if recorded := "CUPTI_ACTIVITY_KIND_CUDA_EVENT" in there:
            database.executescript(RECORDS)
        for cat, (name, table) in enumerate(_TABLES.items()):
            if table.cat == "cuda_sync" and recorded:
                waits_on, waits_on_stream = map(LAST_RECORD.format, ("correlationId", "streamId"))
                table = table._replace(waits_on=waits_on, waits_on_stream=waits_on_stream)
            if name in there:
                self._read_table(cat, database.execute(_query(name, table)))

    def _read_table(self, cat: int, cursor: sqlite3.Cursor) -> None:
        known: dict[Any, int] = {}
        while rows := cursor.fetchmany(BLOCK_ROWS):
            keys, *others = zip(*rows, strict=True)
            known |= {key: self.names[self._words(_CATS[cat], key)] for key in dict.fromkeys(keys) if key not in known}
            name = np.fromiter(map(known.__getitem__, keys), np.int64, len(keys))
            start, end, place, stream, correlation, device, size, waits_on, waits_on_stream = np.array(others, np.int64)
            stream[stream == NO_STREAM] = -1
            process, thread = _numbered(self._processes, place >> 24), _numbered(self._threads, place)
            valid = np.maximum(np.abs(start), np.abs(end)) < 2**62  # nearly 150 years: no valid time is that late
            self.lost += int(np.count_nonzero(~valid))
            correlation, waits_on = _of_process(process, correlation), _of_process(process, waits_on)
            of_a_call = (stream, correlation, device, size, waits_on, waits_on_stream)
            columns = (name, np.full(len(name), cat), process, thread, *of_a_call, start, np.maximum(end - start, 0))
            self._blocks.append(np.stack(columns)[:, valid])

    def _words(self, cat: str, key: Any) -> str:
        """Return the name of an event as torch.profiler writes it."""
        if cat == "gpu_memcpy":
            copied, source, target = map(int, key.split())
            between = f"{MEMORY_KINDS.get(source, 'Unknown')} -> {MEMORY_KINDS.get(target, 'Unknown')}"
            return f"Memcpy {COPY_KINDS.get(copied, 'Unknown')} ({between})"
        if cat == "cuda_sync":
            return SYNC_KINDS.get(key, "Unknown Sync")
        return str(self._strings.get(key, key))

    def add_steps(self) -> None:
        """Add the steps, which end as torch.profiler marks them: with the optimizer, after a backward.

        There are none where the phases are not marked.
        """
        marked = {self.names[phase]: phase for phase in map(str, Phase) if phase in self.names}
        found = self.columns()
        rows = np.flatnonzero(found["cat"] == _ANNOTATION)
        rows = rows[np.isin(found["name"][rows], [*marked])]
        rows = rows[np.lexsort((found["ts"][rows], found["tid"][rows]))]
        begin, backward, number, thread = None, False, 0, None
        for name, pid, tid, ts, dur in np.stack([found[each][rows] for each in _OF_A_PHASE]).T.tolist():
            if tid != thread:
                begin, backward, number, thread = None, False, 0, tid
            begin = ts if begin is None else begin
            backward |= marked[name] == Phase.BACKWARD
            if backward and marked[name] == Phase.OPTIMIZER:
                name_of_step = self.names[f"ProfilerStep#{number}"]
                step = (name_of_step, _ANNOTATION, pid, tid, -1, -1, -1, 0, -1, -1, begin, ts + dur - begin)
                self._blocks.append(np.array([step]).T)
                begin, backward, number = ts + dur, False, number + 1


def _of_process(process: Ints, correlation: Ints) -> Ints:
    """Return correlations so that no two processes have one in common: each process numbers them from the same."""
    return np.where(correlation < 0, -1, process << 32 | correlation & (1 << 32) - 1)


def _numbered(numbers: defaultdict[int, int], values: Ints) -> Ints:
    """Return the number of each value."""
    distinct, position = np.unique(values, return_inverse=True)
    return np.array([numbers[value] for value in distinct.tolist()], np.int64)[position.reshape(-1)]


def _query(name: str, table: _Table) -> str:
    """Return a query for the name, start, end and place of each event, and for what is known of its call."""
    numbers = ("start", "end", table.place, *(getattr(table, column) for column in _OF_A_CALL))
    columns = [table.name, *map(_integer, numbers)]
    return f"SELECT {', '.join(columns)} FROM {name} AS event WHERE {table.where}"
