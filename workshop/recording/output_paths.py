"""The names of recordings: no rank, no node and no later run overwrites the recording of another."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

TRACES = "*.pt.trace.json.gz"
"""The names of traces in the folder of a recording."""


def output_path(output: str, default: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of a new file for a recording, and make its folder.

    Args:
        output: a file, or a folder: one that exists, or a name that ends in a slash.
        default: the name of the file in a folder.
        environment: the environment; under torchrun or SLURM it tells the node and the rank.

    Raises:
        OSError: the folder cannot be made.
    """
    path = Path(output)
    if path.is_dir() or output.endswith(("/", os.sep)):
        path /= default
    path.parent.mkdir(parents=True, exist_ok=True)
    node = environment.get("SLURM_NODEID", environment.get("GROUP_RANK"))
    rank = environment.get("RANK")
    if rank is None and int(environment.get("SLURM_NTASKS", 1)) > int(environment.get("SLURM_NNODES", 1)):
        rank = environment.get("SLURM_PROCID")
    name = path.stem + (f"_node{node}" if node else "") + (f"_rank{rank}" if rank else "")
    number, free = 1, path.with_name(name + path.suffix)
    while free.exists():
        number += 1
        free = path.with_name(f"{name}-{number}{path.suffix}")
    return free


def newest(folder: Path) -> Path:
    """Return the newest folder with traces: this one, or one that `free_folder` has given its name and a number."""
    names = re.compile(re.escape(folder.name) + r"(-\d+)?")
    found = [path for path in folder.parent.iterdir() if names.fullmatch(path.name)]
    traces = [path for recording in found for path in recording.glob(TRACES)]
    return max(traces, key=lambda path: path.stat().st_mtime).parent if traces else folder


def free_folder(folder: Path) -> Path:
    """Return a folder for traces: this one, or one with a number if it has the traces of another run."""
    number, free = 1, folder
    while any(free.glob(TRACES)):
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free
