"""The names of recordings: no rank, no node and no later run overwrites the recording of another."""

import os
from collections.abc import Mapping
from pathlib import Path


def output_path(output: str, default: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return where a recording goes: a file that is not there yet, in a folder that is.

    Args:
        output: a file; or a folder, if it is one or ends in a slash.
        default: the name of the file in a folder.
        environment: the environment; under torchrun or SLURM it tells the node and the rank.

    Raises:
        OSError: the folder cannot be made.
    """
    path = Path(output)
    if path.is_dir() or output.endswith(("/", os.sep)):
        path /= default
    path.parent.mkdir(parents=True, exist_ok=True)
    name = "_".join([path.stem, *identity(environment)])
    number, free = 1, path.with_name(name + path.suffix)
    while free.exists():
        number += 1
        free = path.with_name(f"{name}-{number}{path.suffix}")
    return free


def identity(environment: Mapping[str, str]) -> list[str]:
    """Return node and rank of this process, as far as there are several: ["node0", "rank3"]."""
    node = environment.get("SLURM_NODEID", environment.get("GROUP_RANK"))
    rank = environment.get("RANK")
    if rank is None and int(environment.get("SLURM_NTASKS", 1)) > int(environment.get("SLURM_NNODES", 1)):
        rank = environment.get("SLURM_PROCID")
    return [f"{what}{number}" for what, number in (("node", node), ("rank", rank)) if number is not None]
