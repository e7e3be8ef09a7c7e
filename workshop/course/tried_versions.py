"""The versions of Python and of the dependencies that the workshop was tried with."""

import importlib.metadata
import platform
import re
from collections.abc import Iterator
from contextlib import suppress

TRIED = {
    "Python": ("3.11", "3.13"),
    "torch": ("2.5", "2.15"),
    "torchvision": ("0.20", "0.29"),
    "line_profiler": ("5.1", "5.1"),
    "nvitop": ("1.4", "1.7"),
    "tqdm": ("4.66", "4.70"),
    "typer": ("0.21.2", "0.29"),
    "rich": ("13.7", "15.0"),
    "filelock": ("3.13", "4.3"),
    "numpy": ("1.26", "2.5"),
    "pillow": ("10.0", "13.0"),
    "psutil": ("5.9.8", "7.2"),
    "py-spy": ("0.4.3", "0.4.3"),
    "msgspec": ("0.19", "0.22"),
}
"""The oldest and the newest of each that `.ci/matrix` is made for; benchmarks/README.md says which rows were run."""


def untried() -> Iterator[str]:
    """Say of each installed version that is outside of what was tried on which side it is."""
    for name, (oldest, newest) in TRIED.items():
        with suppress(importlib.metadata.PackageNotFoundError):
            version = platform.python_version() if name == "Python" else importlib.metadata.version(name)
            this, first, last = map(_numbers, (version, oldest, newest))
            if this < first or this[: len(last)] > last:
                side = "older" if this < first else "newer"
                yield f"{name} {version} is {side} than what the workshop was tried with ({oldest} to {newest})"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]
