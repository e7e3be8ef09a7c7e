"""What a process has counted, as it is handed over to the process that records the run."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from line_profiler import LineStats

MAIN = "main process"
"""The name of the process of a script that neither loads data for another nor is a rank."""

SUFFIX = ".counts"
"""The end of the names of the files that `ProcessCounts` are written to."""

Timings = Mapping[tuple[str, int, str], list[tuple[int, int, int]]]
"""The (line, hits, time) of each line, by the (file, first line, name) of its function, as line_profiler has them."""


@dataclass(frozen=True)
class ProcessCounts:
    """The counts of one process."""

    name: str
    """The name of the process: "main process", "worker 0", "rank 1", or what multiprocessing calls it."""
    seconds: float
    """The time since the process began to count."""
    unit: float
    """The seconds in a unit of line_profiler's times."""
    lines: list[tuple[str, int, str, list[tuple[int, int, int]]]]
    """The file, first line and name of each function, and the line, hits and time of each of its lines."""
    sources: dict[str, str]
    """The source of each file as it ran."""
    python: list[int]
    """The version of Python, such as [3, 11]."""

    def write(self, path: Path) -> None:
        """Write the counts to a file, which nobody ever reads by half."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(vars(self)), encoding="utf-8")
        partial.rename(path)

    @property
    def stats(self) -> LineStats:
        """The counts as line_profiler has them."""
        timings = {
            (file, first, name): [(n, hits, time) for n, hits, time in lines] for file, first, name, lines in self.lines
        }
        return LineStats(timings, self.unit)


def read(folder: Path) -> Iterator[ProcessCounts]:
    """Yield what each process has written to a folder, in the order in which the processes began."""
    for path in sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: int(path.name.partition("-")[0])):
        yield ProcessCounts(**json.loads(path.read_text(encoding="utf-8")))
