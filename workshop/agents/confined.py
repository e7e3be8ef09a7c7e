"""What an agent may name: files in one folder, and arguments that are no more than words."""

import os
from collections.abc import Sequence
from pathlib import Path

from workshop.errors import WorkshopError

MAX_ARGUMENTS, MAX_LENGTH = 64, 2000
"""The number of arguments that a script may get, and of the characters of each."""


def inside(root: Path, name: str) -> Path:
    """Return the path of a file or folder in the root, whose symbolic links are followed.

    Raises:
        WorkshopError: it leads out of the root, or there is nothing.
    """
    if not name or "\0" in name:
        raise WorkshopError("name a file in the folder of this server")
    top = Path(os.path.realpath(root))
    path = Path(os.path.realpath(top / name))
    if not path.is_relative_to(top):
        raise WorkshopError(f"{name} is outside of {top}; only what is in this folder can be named")
    if not path.exists():
        raise WorkshopError(f"there is no {name} in {top}")
    return path


def script(root: Path, name: str) -> str:
    """Return the path of a Python script in the root, as it is handed to a command: absolute, so it is no option.

    Raises:
        WorkshopError: it is outside, or no script.
    """
    path = inside(root, name)
    if path.suffix != ".py" or not path.is_file():
        raise WorkshopError(f"{name} is no Python script; name a file that ends in .py")
    return str(path)


def words(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a script, if there are not too many.

    Raises:
        WorkshopError: there are, or one is too long, or has a NUL.
    """
    if len(arguments) > MAX_ARGUMENTS or any(len(each) > MAX_LENGTH or "\0" in each for each in arguments):
        raise WorkshopError(f"at most {MAX_ARGUMENTS} arguments of at most {MAX_LENGTH} characters are passed on")
    return list(arguments)
