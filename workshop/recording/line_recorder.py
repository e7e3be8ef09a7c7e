"""Exact line profiles of a run that is not edited: of all its processes, and without a decorator."""

import shlex
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from line_profiler import LineStats

from workshop import line_counts
from workshop.errors import CrashError, WorkshopError
from workshop.line_counts import MAIN, ProcessCounts
from workshop.notebooks.notebook_file import SCRIPT_SUFFIXES
from workshop.probe import wire
from workshop.probe.settings import LINES_VARIABLE, CountedRun
from workshop.profiles import line_profile
from workshop.recording.output_paths import output_path
from workshop.recording.run import RecordedRun, Run, TimeLimit, as_command
from workshop.runs.other_load import OtherLoad
from workshop.runs.script import Say, probe_environment


@dataclass(frozen=True)
class RecordedLines(RecordedRun):
    """A line profile, and how the command ended."""

    path: Path
    processes: int
    functions: int
    seconds: float
    """The time from the start of the first process to the end of the run."""
    warnings: list[str]


def record(
    command: list[str],
    output: str = "",
    only: Sequence[str] = (),
    own: Sequence[Path] = (),
    seconds: float | None = None,
    say: Say = lambda _: None,
) -> RecordedLines:
    """Run a script, or any command that starts Python, and count the lines of user code in all processes.

    User code is whatever is neither installed, nor part of Python, nor generated: see `is_user_code`.

    Args:
        command: the command.
        output: as for `output_path`; empty for a file that is called like the script.
        only: the names of the functions to be counted, qualified or not; empty for all of them.
        own: folders of installed packages that count as user code, too.
        seconds: end the run so long after its first training step, as if it had come to its end; None to let it.
        say: told from when on the seconds count, where no step is seen.

    Raises:
        WorkshopError: there is no such command, or no line of user code ran.
        CrashError: it crashed before one did.
        OSError: the folder of the output cannot be written.
    """
    place = output or "./", f"{_what_runs(command)}.lprof"
    with tempfile.TemporaryFile(dir=output_path(*place).parent):
        pass  # a folder that cannot be written shows before hours of training
    with tempfile.TemporaryDirectory(prefix="workshop-lines-", ignore_cleanup_errors=True) as folder:
        counted = CountedRun(folder, tuple(str(package.resolve()) for package in own), tuple(only))
        limit = TimeLimit(seconds, Path(folder), say)
        environment = {LINES_VARIABLE: wire.encode(counted), **limit.environment, **probe_environment()}
        run = Run(as_command(command), folder, environment)
        run.wait(limit.is_over)
        found = list(line_counts.read(Path(folder)))
    if not found:
        if run.stopped:
            raise run.stopped
        kind = CrashError if run.exit_code else WorkshopError
        raise kind(_why_nothing(command, only, run.exit_code))
    path = output_path(*place)  # only now: another recording may have taken the name meanwhile
    together, warnings = write_profile(path, found, command, only, run.load.end())
    processes, ran_s = len({*_names(found)}), max(process.seconds for process in found)
    return RecordedLines(path, processes, len(together.timings), ran_s, warnings, **run.ended())


def write_profile(
    path: Path, found: Sequence[ProcessCounts], command: Sequence[str], only: Sequence[str], machine: OtherLoad
) -> tuple[LineStats, list[str]]:
    """Write what the processes of a run have counted to a line profile.

    Args:
        path: the file.
        found: the counts, at least one.
        command: what was run.
        only: the names of the functions that were counted; empty for all.
        machine: what other programs used of the cores meanwhile.

    Returns:
        the counts of all processes together, and sentences on what was left out.

    Raises:
        OSError: the file cannot be written.
    """
    warnings = [f"{file} was edited during the run; its later version is left out" for file in _drop_edited(found)]
    together = LineStats.from_stats_objects(*(process.stats for process in found))
    recorded = {
        "command": tuple(command),
        "sources": {file: source for process in reversed(found) for file, source in process.sources.items()},
        "processes": {name: stats.timings for name, stats in _by_process(found).items()},
        "seconds": max(process.seconds for process in found),
        "python": tuple(found[0].python),
        "only": tuple(only),
        "machine": machine.as_dict(),
    }
    line_profile.write(path, together, recorded)
    return together, warnings


def _what_runs(command: Sequence[str]) -> str:
    """Return the name of the script or module that a command runs."""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word == "-m" and following:
            return following
        if word.endswith(SCRIPT_SUFFIXES) and Path(word).is_file():
            return Path(word).name
    return "lines"


def _drop_edited(found: Iterable[ProcessCounts]) -> set[str]:
    """Leave out the lines of files that were not the same in all processes, but for the first version."""
    first: dict[str, str] = {}
    edited = set()
    for process in found:
        for file, source in process.sources.items():
            if first.setdefault(file, source) != source:
                process.lines[:] = [function for function in process.lines if function[0] != file]
                edited.add(Path(file).name)
    return edited


def _names(found: Sequence[ProcessCounts]) -> list[str]:
    """The name of each process; of several main processes, as after os.fork, the later ones have a number."""
    names: list[str] = []
    for number, process in enumerate(found, start=1):
        names.append(f"process {number}" if process.name == MAIN and MAIN in names else process.name)
    return names


def _by_process(found: Sequence[ProcessCounts]) -> dict[str, LineStats]:
    """Add up the counts of the processes of the same name, such as the first worker of each epoch."""
    groups: dict[str, list[LineStats]] = defaultdict(list)
    for name, process in zip(_names(found), found, strict=True):
        groups[name].append(process.stats)
    return {name: LineStats.from_stats_objects(*stats) for name, stats in groups.items()}


def _why_nothing(command: Sequence[str], only: Sequence[str], exit_code: int) -> str:
    what = shlex.join(command)
    if exit_code:
        return f"{what} ended with exit code {exit_code} before a line of its own code ran; nothing was recorded"
    functions = f" of {', '.join(only)}" if only else ""
    return f"{what} ran no line{functions} of your own code in a file whose name ends in .py; nothing was recorded"
