"""Line profiles that no run has left: their times are what a test says."""

from collections.abc import Mapping
from pathlib import Path

from line_profiler import LineStats

from workshop.line_counts import MAIN
from workshop.profiles import line_profile
from workshop.profiles.line_profile import LineProfile

Counts = Mapping[tuple[Path, str], Mapping[int, tuple[int, float]]]
"""The hits and the milliseconds of each line, by the file and the name of its function."""


def made_lines(path: Path, sources: Mapping[Path, str], counts: Counts, **workers: Counts) -> LineProfile:
    """Write a profile as `workshop record lines` does: of the main process, and of workers, and read it back."""

    def first_line(file: Path, name: str) -> int:
        head = f"def {name.rpartition('.')[2]}("
        return next((at for at, line in enumerate(sources[file].splitlines(), start=1) if head in line), 1)

    by_process = {
        process: {
            (str(file), first_line(file, name), name): [(n, hits, round(ms * 1e6)) for n, (hits, ms) in lines.items()]
            for (file, name), lines in of_process.items()
        }
        for process, of_process in {
            MAIN: counts,
            **{name.replace("_", " "): each for name, each in workers.items()},
        }.items()
    }
    together = LineStats.from_stats_objects(*(LineStats(timings, 1e-9) for timings in by_process.values()))
    longest = max(sum(time for *_, time in lines) for lines in together.timings.values())
    recorded = {
        "command": (next(iter(sources)).name,),
        "sources": {str(file): source for file, source in sources.items()},
        "processes": by_process,
        "seconds": longest / 1e9,
        "python": (3, 11),
    }
    line_profile.write(path, together, recorded)
    return line_profile.read(path)
