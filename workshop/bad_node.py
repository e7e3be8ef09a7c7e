"""A node that is slower than the others, to practise on: a config that calls `strike` makes one of the ranks slow."""

import hashlib
import os
import time
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_pre_hook


def strike(seconds: float) -> None:
    """Make one rank of this run wait that long before each optimizer step; a run of one process is not changed."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1 and int(os.environ.get("RANK", "0")) == slow_rank(ranks):

        def stall(*_: object) -> None:  # the name by which py-spy shows it
            time.sleep(seconds)

        register_optimizer_step_pre_hook(stall)


def slow_rank(ranks: int, folder: Path | None = None) -> int:
    """Return the slow rank of a run in a folder, by default the current one.

    It is the same for all runs with as many ranks in that folder, also on other nodes that share the folder.
    """
    inode = (folder or Path.cwd()).stat().st_ino
    return hashlib.sha256(str(inode).encode()).digest()[0] % ranks
