"""Line profiles from DataLoader workers, which kernprof alone does not see.

    from workshop.profiles.workers import profile_worker

    DataLoader(dataset, num_workers=4, worker_init_fn=profile_worker)

Then `kernprof -lv train.py ...` shows the sum of what `@profile` counted in the main process and in all workers, which
may be forked or spawned. Without kernprof it does nothing. Import it before your own modules that use `@profile`: a
worker that is not forked starts empty, and this import switches `@profile` on there.

Each worker writes its counts to a file after each batch, before it hands the batch over: however a worker ends, every
batch that the training received is counted. The profiler in the main process adds the counts in these files to its own.
"""

import atexit
import functools
import multiprocessing
import os
import pickle
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any

import line_profiler
from line_profiler import LineProfiler
from line_profiler.line_profiler import LineStats

from workshop.line_counts.counts import Timings

VARIABLE = "WORKSHOP_WORKER_PROFILES"
"""The environment variable that tells the workers the folder for their files."""

_get_stats = LineProfiler.get_stats


def profile_worker(worker_id: int) -> None:
    """Have this worker report its line profile: a `worker_init_fn` for DataLoader, or to be called from yours."""
    folder, profiler = os.environ.get(VARIABLE), line_profiler.profile._profile
    if folder and profiler:
        from torch.utils.data._utils import fetch

        inherited = _get_stats(profiler).timings  # a forked worker starts with the counts of its parent
        path = Path(folder) / uuid.uuid4().hex
        for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            fetcher.fetch = _reporting(fetcher.fetch, profiler, inherited, path)


def _reporting(fetch: Any, profiler: LineProfiler, inherited: Timings, path: Path) -> Any:
    """Return a function that fetches a batch, and then writes the counts of this worker to a file."""

    @functools.wraps(fetch)
    def fetch_and_report(*args: Any) -> Any:
        try:
            return fetch(*args)
        finally:
            stats = _get_stats(profiler)
            partial = path.with_suffix(".tmp")
            partial.write_bytes(pickle.dumps(LineStats(_difference(stats.timings, inherited), stats.unit)))
            partial.rename(path)  # nobody reads half a file

    return fetch_and_report


def _difference(now: Timings, before: Timings) -> Timings:
    known = {(key, line): (hits, time) for key, lines in before.items() for line, hits, time in lines}
    since: dict[tuple[str, int, str], list[tuple[int, int, int]]] = {}
    for key, lines in now.items():
        for line, hits, time in lines:
            old_hits, old_time = known.get((key, line), (0, 0))
            if hits > old_hits:
                since.setdefault(key, []).append((line, hits - old_hits, time - old_time))
    return since


class _WorkerReports:
    """Adds the counts of the workers to those of the profiler in the main process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.folder: Path | None = Path(tempfile.mkdtemp(prefix="workshop-lines-"))
        os.environ[VARIABLE] = str(self.folder)
        self.kept: list[LineStats] = []

    def get_stats(self, profiler: LineProfiler) -> LineStats:
        """Return the counts of the main process and of all workers; this replaces `LineProfiler.get_stats`."""
        stats = _get_stats(profiler)
        if os.getpid() != self.pid or profiler is not line_profiler.profile._profile:
            return stats
        names = {_real_place(key): key for key in stats.timings}
        reports = self.read()
        for report in reports:
            report.timings = {names.get(_real_place(key), key): lines for key, lines in report.timings.items()}
        return LineStats.from_stats_objects(stats, *reports)

    def read(self) -> list[LineStats]:
        """Return what the workers have written so far."""
        if self.folder is None:
            return self.kept
        return [LineStats.from_files(path) for path in self.folder.iterdir() if not path.suffix]

    def close(self) -> None:
        """Delete the files, and keep their counts in memory for a profile that is written even later."""
        if os.getpid() == self.pid and self.folder:
            self.kept, folder, self.folder = self.read(), self.folder, None
            shutil.rmtree(folder, ignore_errors=True)


def _real_place(key: tuple[str, int, str]) -> tuple[str, int, str]:
    """Return the key with the file's real path: a spawned worker knows the script by another path."""
    return os.path.realpath(key[0]), *key[1:]


def _start() -> None:
    # While a spawned process imports the script, multiprocessing does not name its parent yet.
    inheriting = getattr(multiprocessing.current_process(), "_inheriting", False)
    if inheriting or multiprocessing.parent_process() is not None:
        if VARIABLE in os.environ and not line_profiler.profile.enabled:
            line_profiler.profile._kernprof_overwrite(LineProfiler())
    # kernprof has switched it on, or LINE_PROFILE=1 will as soon as the first function is decorated.
    elif line_profiler.profile.enabled or os.environ.get("LINE_PROFILE"):
        reports = _WorkerReports()
        LineProfiler.get_stats = lambda profiler: reports.get_stats(profiler)  # type: ignore[method-assign,assignment]
        atexit.register(reports.close)


_start()
