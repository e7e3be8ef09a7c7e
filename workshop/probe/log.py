"""What the workshop does, said while it does it: with `WORKSHOP_LOG=debug` in the environment, or `workshop -v`."""

import os
import sys
from contextlib import suppress
from time import monotonic  # the script may replace that of the module

LEVEL_VARIABLE, FILE_VARIABLE = "WORKSHOP_LOG", "WORKSHOP_LOG_FILE"
"""The environment variables that ask for the log, and that name the file which it is appended to: stderr if unset."""


def is_on() -> bool:
    """Return whether the log was asked for."""
    return os.environ.get(LEVEL_VARIABLE, "").lower() == "debug"


def log(text: str) -> None:
    """Say what this process does, if the log was asked for."""
    if is_on():
        line = f"workshop {monotonic():.3f} [{os.getpid()}] {text}\n"
        with suppress(Exception):
            if path := os.environ.get(FILE_VARIABLE):
                with open(path, "a", encoding="utf-8") as file:
                    file.write(line)
            else:
                sys.stderr.write(line)
