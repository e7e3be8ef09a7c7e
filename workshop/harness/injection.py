"""The way into every Python process of somebody's command: a folder on its path, with a sitecustomize in it."""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "inject"


def environment() -> dict[str, str]:
    """What a command's environment needs beside this process's own."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))}
