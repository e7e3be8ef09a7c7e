"""The command whose run is recorded, as a person types it."""

import shutil
import sys
from pathlib import Path

from workshop.errors import WorkshopError


def as_command(command: list[str]) -> list[str]:
    """Return a command that can be started: this Python stands before a script, and before `-m` with a module.

    Raises:
        WorkshopError: there is no such script, and no such command.
    """
    if command[0].endswith(".py"):
        if not Path(command[0]).is_file():
            raise WorkshopError(f"{command[0]} is not a file; name a Python script")
        return [sys.executable, *command]
    if command[0] == "-m":
        return [sys.executable, *command]
    if not shutil.which(command[0]):
        raise WorkshopError(f"there is no command {command[0]}; name one, or a script such as train.py")
    return command
