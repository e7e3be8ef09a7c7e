"""Line profiles from DataLoader workers. kernprof sees its own process only; with this it sees the workers, too.

    from workshop.profiles.workers import profile_worker

    DataLoader(dataset, num_workers=4, worker_init_fn=profile_worker)

Then `kernprof -lv train.py ...` shows what `@profile` counted in all of them, summed. It works for fork, spawn and
forkserver; without kernprof it does nothing. Import it before modules of your own that use `@profile`: workers that are
not forked start from nothing, and there it is this import that switches `@profile` on.

Each worker writes its counts to a file after each batch, before the batch is handed over: however a worker ends, what
the training has received is counted. Whoever asks the profiler for its figures gets those of the files added.
"""

import atexit
import functools
import multiprocessing
import os
import pickle
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import line_profiler
from line_profiler import LineProfiler
from line_profiler.line_profiler import LineStats

VARIABLE = "WORKSHOP_WORKER_PROFILES"
"""Tells the workers, whatever starts them, into which folder they write."""

Timings = Mapping[tuple[str, int, str], list[tuple[int, int, int]]]
"""(file, first line, name) of a function to the (line, hits, time) of its lines."""

_get_stats = LineProfiler.get_stats


def profile_worker(worker_id: int) -> None:
    """Have this worker report its line profile: a `worker_init_fn` for DataLoader, or to be called from yours."""
    folder, profiler = os.environ.get(VARIABLE), line_profiler.profile._profile
    if folder and profiler:
        _report_each_batch(profiler, Path(folder) / uuid.uuid4().hex)


def _report_each_batch(profiler: LineProfiler, path: Path) -> None:
    from torch.utils.data._utils import fetch

    inherited = _get_stats(profiler).timings  # a forked worker starts with what its parent had counted
    for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        fetcher.fetch = _reporting(fetcher.fetch, functools.partial(_report, profiler, inherited, path))


def _reporting(load: Any, report: Any) -> Any:
    @functools.wraps(load)
    def load_and_report(*args: Any) -> Any:
        try:
            return load(*args)
        finally:
            report()

    return load_and_report


def _report(profiler: LineProfiler, inherited: Timings, path: Path) -> None:
    stats = _get_stats(profiler)
    growing = path.with_suffix(".tmp")
    growing.write_bytes(pickle.dumps(LineStats(_minus(stats.timings, inherited), stats.unit)))
    growing.rename(path)  # whole, or not at all


def _minus(now: Timings, before: Timings) -> Timings:
    """What was counted since."""
    known = {(key, line): (hits, time) for key, lines in before.items() for line, hits, time in lines}
    since: dict[tuple[str, int, str], list[tuple[int, int, int]]] = {}
    for key, lines in now.items():
        for line, hits, time in lines:
            old_hits, old_time = known.get((key, line), (0, 0))
            if hits > old_hits:
                since.setdefault(key, []).append((line, hits - old_hits, time - old_time))
    return since


class _Gatherer:
    """In the process that trains: adds the workers' figures to those of its profiler."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.folder: Path | None = Path(tempfile.mkdtemp(prefix="workshop-lines-"))
        os.environ[VARIABLE] = str(self.folder)
        self.kept: list[LineStats] = []

    def get_stats(self, profiler: LineProfiler) -> LineStats:
        """In the place of `LineProfiler.get_stats`, on which its printing and writing rest."""
        stats = _get_stats(profiler)
        if os.getpid() != self.pid or profiler is not line_profiler.profile._profile:
            return stats
        names = {_place(key): key for key in stats.timings}
        reports = self.reports()
        for report in reports:
            report.timings = {names.get(_place(key), key): lines for key, lines in report.timings.items()}
        return LineStats.from_stats_objects(stats, *reports)

    def reports(self) -> list[LineStats]:
        """What the workers have written so far."""
        if self.folder is None:
            return self.kept
        return [LineStats.from_files(path) for path in self.folder.iterdir() if not path.suffix]

    def close(self) -> None:
        """Leave nothing on disk. A profile that is written even later still has the figures."""
        if os.getpid() == self.pid and self.folder:
            self.kept, folder, self.folder = self.reports(), self.folder, None
            shutil.rmtree(folder, ignore_errors=True)


def _place(key: tuple[str, int, str]) -> tuple[str, int, str]:
    """A worker that was spawned knows the script by another path."""
    return os.path.realpath(key[0]), *key[1:]


def _is_worker() -> bool:
    # While a process that was spawned imports the script, multiprocessing does not name its parent yet.
    inheriting = getattr(multiprocessing.current_process(), "_inheriting", False)
    return inheriting or multiprocessing.parent_process() is not None


def _start() -> None:
    if _is_worker():
        if VARIABLE in os.environ and not line_profiler.profile.enabled:
            line_profiler.profile._kernprof_overwrite(LineProfiler())
    # By kernprof, or by LINE_PROFILE=1, which switches it on no sooner than the first function is decorated.
    elif line_profiler.profile.enabled or os.environ.get("LINE_PROFILE"):
        gatherer = _Gatherer()
        LineProfiler.get_stats = lambda profiler: gatherer.get_stats(profiler)  # type: ignore[method-assign,assignment]
        atexit.register(gatherer.close)


_start()
