"""The participant's script: found, and replaced by another one without being lost."""

from datetime import datetime
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.experiment import STAMP
from workshop.parts import Part


def existing(script: Path, part: Part | None = None) -> Path:
    """Return the absolute path of a script.

    Args:
        script: its path.
        part: the part that it is for, to say how to get the script.

    Raises:
        WorkshopError: it is not there.
    """
    if not script.is_file():
        if part and script == Path(part.script):
            raise WorkshopError(f"there is no {script} here; put it there with workshop start {part.name}")
        raise WorkshopError(f"there is no file {script.absolute()}; name your script with --script")
    return script.absolute()


def replace_script(script: Path, source: Path) -> Path | None:
    """Put a copy of a script in the place of another one, which is kept beside it, with the date in its name.

    Returns:
        The path under which it was kept; None if there was none or it was the same.

    Raises:
        OSError: the folder cannot be written.
    """
    content = source.read_bytes()
    backup = None
    if script.exists():
        if script.read_bytes() == content:
            return None  # and a profile of it stays valid
        backup = _free(script.with_name(f"{script.stem}-{datetime.now():{STAMP}}{script.suffix}"))
        script.rename(backup)
    script.write_bytes(content)
    return backup


def _free(path: Path) -> Path:
    """The path, or the first with a number that is not taken."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free
