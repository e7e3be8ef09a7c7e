"""The way of the probe into every Python process of somebody's command: a folder on PYTHONPATH with a sitecustomize."""

import os
from pathlib import Path

from workshop import probe

FOLDER = Path(probe.__file__).parent / "inject"


def environment() -> dict[str, str]:
    """Return what a command's environment needs beside this process's own."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))}
