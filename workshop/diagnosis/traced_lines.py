"""The lines of a measured script in the trace of some of its steps: what each takes on the host and on the device."""

import ast
from pathlib import Path

from workshop.diagnosis.samples import Observations
from workshop.diagnosis.user_lines import source_of
from workshop.probe.phases import CALLS
from workshop.traces import read
from workshop.traces.code_places import CodePlace
from workshop.traces.kept_calls import with_calls
from workshop.traces.step_lines import LinePart, line_parts


def traced_lines(folder: Path, observations: Observations, script: str) -> tuple[LinePart, ...]:
    """Return the lines of the trace that was kept in a run's folder, with the script's own paths and functions.

    Raises:
        WorkshopError: it cannot be read.
    """
    work = observations.operators
    if work is None or not work.trace:
        return ()
    frames = (frame for stack in {each.stack for each in observations.samples} for frame in stack)
    paths = dict.fromkeys([*(frame.path for frame in frames), script])
    of_file, trace = _OfFile(paths), read(folder / work.trace)
    if (calls := folder / f"{work.trace}{CALLS}").is_file():
        trace = with_calls(trace, calls)
    return tuple(
        part._replace(place=of_file(part.place), waits_for=part.waits_for and of_file(part.waits_for))
        for part in line_parts(trace)
    )


class _OfFile:
    """Gives places of a trace the path that samples have, as a trace has it relative to a folder of `sys.path`.

    Args:
        paths: those of the files that were sampled.
    """

    def __init__(self, paths: dict[str, None]) -> None:
        self._paths, self._folders = paths, dict.fromkeys(Path(each).absolute().parent for each in paths)

    def __call__(self, place: CodePlace) -> CodePlace:
        """Return a place with its path, and with the function that it is in."""
        if not place.file:
            return place
        ending = f"/{place.file}"
        beside = (str(folder / place.file) for folder in self._folders if (folder / place.file).is_file())
        found = (each for each in self._paths if f"/{each}".endswith(ending))
        path = min(found, key=lambda each: (not Path(each).is_absolute(), len(each)), default=None) or next(
            beside, place.file
        )
        return place._replace(file=path, function=place.function or function_at(path, place.line))


def function_at(path: str, line: int) -> str:
    """Return the name of the innermost function that has a line."""
    found = [
        each
        for each in ast.walk(source_of(path).tree)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.lineno <= line <= (each.end_lineno or 0)
    ]
    return max(found, key=lambda each: each.lineno).name if found else "<module>"
