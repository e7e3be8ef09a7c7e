"""Tells the runs apart whose recordings lie in one folder: several runs are not one recording."""

import re
from dataclasses import replace
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.profiles import stacks
from workshop.profiles.code_origin import script_of
from workshop.profiles.stacks import RECORD_AGAIN, Recording
from workshop.terminal import some_of

_NAMED_BY_RECORDER = re.compile(r"profile(?:_node\d+)?(?:_rank\d+)?(-\d+)?\.raw(?:\.gz)?")
"""The names that `workshop record py-spy` gives to files: those of one run end in the same number."""


def read(*paths: Path, library: str | None = None) -> Recording:
    """Read recordings as one; of a folder, those of one run.

    Args:
        paths: files, which may be gzipped, and folders.
        library: a text; of a folder, the newest run of a script whose name contains it is read, if there is one.

    Raises:
        WorkshopError: a file does not exist or is not a recording, or there is none in a folder.
    """
    found = [_newest_run(path, library) if path.is_dir() else stacks.read(path) for path in paths]
    return _together(found)


def _newest_run(folder: Path, library: str | None) -> Recording:
    """Return the newest run in a folder; its notes say what else is there."""
    runs: dict[tuple[str, str], list[Path]] = {}
    recordings: dict[Path, Recording] = {}
    notes = []
    for path in sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")):
        try:
            recordings[path] = stacks.read(path)
        except WorkshopError as error:  # the folder may hold flame graphs, too
            notes.append(f"left out: {error}")
            continue
        runs.setdefault((script_of(recordings[path]), _name_of_run(path)), []).append(path)
    if not runs:
        raise WorkshopError(f"there is no py-spy recording in {folder}; {RECORD_AGAIN}")
    by_age = sorted(runs, key=lambda run: max(path.stat().st_mtime for path in runs[run]))
    of_script = [run for run in by_age if library and library in run[0]]
    chosen = (of_script or by_age)[-1]
    if len(runs) > 1:
        others = some_of(f"{runs[run][0].name} of {run[0]}" for run in reversed(by_age) if run != chosen)
        notes.append(
            f"{folder} has recordings of several runs; this is {runs[chosen][0].name} of {chosen[0]}, the newest"
            f"{' of that script' if of_script else ''}. To read another, name its file: {others}"
        )
    found = _together([recordings[path] for path in runs[chosen]])
    return replace(found, notes=[*notes, *found.notes])


def _name_of_run(path: Path) -> str:
    """Return what the names of the files of one run have in common: those of other recorders differ in numbers."""
    if of_recorder := _NAMED_BY_RECORDER.fullmatch(path.name):
        return f"profile{of_recorder[1] or ''}"
    return re.sub(r"[-_]?(node|rank)?[-_]?\d+", "", path.name.removesuffix(".gz"))


def _together(recordings: list[Recording]) -> Recording:
    stacks_of_all = [stack for recording in recordings for stack in recording.stacks]
    return Recording(stacks_of_all, [note for recording in recordings for note in recording.notes])
