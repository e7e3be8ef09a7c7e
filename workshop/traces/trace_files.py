"""Finds the traces of several ranks, reads them in parallel, and tells their ranks apart."""

import multiprocessing
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from workshop.probe.own_limits import usable_cores
from workshop.runs.load_beside import busy_note
from workshop.terminal import some_of
from workshop.traces import nsys_report
from workshop.traces.decoding import NO_TRACE, WRITES_ONE, TraceError
from workshop.traces.trace import Trace, read

SUFFIXES = (".json", ".gz", ".sqlite")
MIN_BYTES_FOR_PROCESSES = 8_000_000
"""Bytes in all files, from which on it takes less time to start processes than to read in this one."""

Rank = int | str
"""The number of a rank; where several files name the same rank, its number and the file's name."""


def number_of(rank: Rank) -> int:
    """Return the number of a rank without the name of the file."""
    return rank if isinstance(rank, int) else int(rank.partition(" ")[0])


class Traces(dict[Rank, Trace]):
    """Traces by rank, in the order of the ranks' numbers."""

    def __init__(self, traces: Iterable[Trace], skipped: Iterable[str] = ()) -> None:
        super().__init__(_named(list(traces)))
        busy = dict.fromkeys(filter(None, (busy_note(trace.path) for trace in self.values())))
        self.notes = [*busy, *skipped, *(note for trace in self.values() for note in trace.damage)]
        """A sentence if the machine was busy, and one for each thing that could not be read."""


def load(paths: Iterable[Path], progress: Callable[[int, int], object] = lambda done, total: None) -> Traces:
    """Read traces, large ones in several processes; other files in a folder are only named in the notes.

    `progress` is told how many bytes of all files have been read, and how many there are.

    Raises:
        TraceError: a file is no trace, or a folder has none.
        OSError: a file cannot be read.
    """
    files = list({path.absolute(): (path, asked) for path, asked in _files(paths)}.values())
    done, total = 0, sum(path.stat().st_size for path, _ in files)
    progress(done, total)
    traces, skipped = [], []
    for (path, asked), found in zip(files, _read_all([path for path, _ in files], total), strict=True):
        done += path.stat().st_size
        progress(done, total)
        if isinstance(found, Trace):
            traces.append(found)
        elif asked:
            raise found
        else:
            skipped.append(f"passed over: {found}")
    if not traces:
        raise TraceError(f"there is no trace in {some_of(paths)}")
    return Traces(traces, skipped)


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each file that may be a trace, and whether it was named."""
    for path in paths:
        if path.is_dir():
            found = sorted(path.iterdir())
            yield from ((file, False) for file in found if file.name.endswith(SUFFIXES) and file.is_file())
        elif not path.exists():
            raise TraceError(f"there is no file {path}")
        else:
            yield path, True


def _read_all(paths: list[Path], size: int) -> Iterator[Trace | TraceError]:
    if len(paths) < 2 or size < MIN_BYTES_FOR_PROCESSES:
        yield from map(_try_to_read, paths)
        return
    # Nothing but numpy is at work here, and no thread: a copy of this process is soon made, and safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    try:
        with ProcessPoolExecutor(min(len(paths), usable_cores()), context) as processes:
            yield from processes.map(_try_to_read, paths)
    except BrokenProcessPool:
        problem = "a process that read traces was killed, perhaps for want of memory"
        raise TraceError(f"{problem}; name fewer traces at once") from None


def _try_to_read(path: Path) -> Trace | TraceError:
    try:
        found = nsys_report.read(path) if nsys_report.is_report(path) else read(path)
    except TraceError as error:
        return error
    if found.is_of_torch:
        return found
    return TraceError(f"{path} is {NO_TRACE}: no operator, kernel, copy or step is in it; {WRITES_ONE}")


def _named(traces: list[Trace]) -> Iterator[tuple[Rank, Trace]]:
    """Yield each trace with its rank: the one that it names, else that of the file's name, else the lowest free one."""
    ranks = {id(trace): _rank(trace) for trace in traces}
    free = (number for number in range(len(traces)) if number not in set(ranks.values()))
    groups: dict[int, list[Trace]] = defaultdict(list)
    for trace in sorted(traces, key=lambda each: str(each.path)):
        groups[next(free) if (rank := ranks[id(trace)]) is None else rank].append(trace)
    for number, same in sorted(groups.items()):
        for name, trace in zip(_distinct([each.path for each in same]), same, strict=True):
            yield (number if len(same) == 1 else f"{number} ({name})"), trace


def _distinct(paths: list[Path]) -> list[str]:
    """Return a short name for each of some different paths, no two alike."""
    stems = [re.sub(r"(\.pt\.trace)?(\.json)?(\.gz)?$", "", path.name) for path in paths]
    for names in (stems, [path.name for path in paths], [f"{path.parent.name}/{path.name}" for path in paths]):
        if len(set(names)) == len(names):
            return names
    return [*map(str, paths)]


def _rank(trace: Trace) -> int | None:
    found = re.search(r"rank[-_]?(\d+)", trace.path.name)
    return trace.rank if trace.rank is not None or not found else int(found[1])
