"""Traces of many ranks: found, read side by side, and told apart."""

import multiprocessing
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from workshop.profiles.traces.decoding import TraceError
from workshop.profiles.traces.trace import Trace, read

SUFFIXES = (".json", ".json.gz", ".gz")
WORTH_A_PROCESS = 8_000_000
"""Bytes in all files: below, starting processes takes longer than reading."""

_RANK = re.compile(r"rank[-_]?(\d+)")


Rank = int | str


def number_of(rank: Rank) -> int:
    """Without the file, where several are of the same rank."""
    return rank if isinstance(rank, int) else int(rank.partition(" ")[0])


class Traces(dict[Rank, Trace]):
    """By rank: its number, or, where two files say that they are the same one, the number and the file's name."""

    def __init__(self, traces: Iterable[Trace], skipped: Iterable[str] = ()) -> None:
        super().__init__(_named(list(traces)))
        self.notes = [*skipped, *(note for trace in self.values() for note in trace.damage)]
        """What could not be read, for a person."""


def load(paths: Iterable[Path], each: Callable[[int], object] = lambda _: None) -> Traces:
    """Read traces, in as many processes as there are cores.

    Args:
        paths: files, and folders of files; in a folder, what is no trace is passed over and named in the notes.
        each: called with the number of bytes of each file that has been read.

    Raises:
        TraceError: a file is no trace, or a folder has none.
        OSError: one cannot be read.
    """
    files = list(_files(paths))
    traces, skipped = [], []
    for (path, asked), found in zip(files, _read_all([path for path, _ in files]), strict=True):
        each(path.stat().st_size)
        if isinstance(found, Trace):
            traces.append(found)
        elif asked:
            raise found
        else:
            skipped.append(f"passed over: {found}")
    if not traces:
        raise TraceError(f"there is no trace in {', '.join(map(str, paths))}")
    return Traces(traces, skipped)


def sizes(paths: Iterable[Path]) -> int:
    """How many bytes there are to read, for a progress bar."""
    return sum(path.stat().st_size for path, _ in _files(paths))


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Each file, and whether it was asked for by name."""
    for path in paths:
        if path.is_dir():
            yield from ((found, False) for found in sorted(path.iterdir()) if _may_be_one(found))
        elif not path.exists():
            raise TraceError(f"there is no file {path}")
        else:
            yield path, True


def _may_be_one(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and path.is_file()


def _read_all(paths: list[Path]) -> Iterator[Trace | TraceError]:
    if len(paths) < 2 or sum(path.stat().st_size for path in paths) < WORTH_A_PROCESS:
        yield from map(_try_to_read, paths)
        return
    # Nothing but numpy is at work here, and no thread: a copy of this process is soon made, and safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(min(len(paths), os.cpu_count() or 1), context) as processes:
        yield from processes.map(_try_to_read, paths)


def _try_to_read(path: Path) -> Trace | TraceError:
    try:
        return read(path)
    except TraceError as error:
        return error


def _named(traces: list[Trace]) -> Iterator[tuple[Rank, Trace]]:
    """Of those that name no rank, it is taken from the file's name; else they get the lowest numbers that are free."""
    ranks = {id(trace): _rank(trace) for trace in traces}
    free = (number for number in range(len(traces)) if number not in set(ranks.values()))
    numbers = [(next(free) if (rank := ranks[id(trace)]) is None else rank, trace) for trace in traces]
    times = Counter(number for number, _ in numbers)
    for number, trace in sorted(numbers, key=lambda each: (each[0], str(each[1].path))):
        yield (number if times[number] == 1 else f"{number} ({_stem(trace.path)})"), trace


def _stem(path: Path) -> str:
    return re.sub(r"(\.pt\.trace)?(\.json)?(\.gz)?$", "", path.name)


def _rank(trace: Trace) -> int | None:
    if trace.rank is not None:
        return trace.rank
    found = _RANK.search(trace.path.name)
    return int(found[1]) if found else None
