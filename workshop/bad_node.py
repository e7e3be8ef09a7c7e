"""A slow node to practise on: a config that calls `slow_one_rank` makes one of the ranks wait before each step."""

import hashlib
import os
import time
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_pre_hook


def slow_one_rank(seconds: float) -> None:
    """Make one rank of this run wait that long before each optimizer step; a run of one process is not changed."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1 and int(os.environ.get("RANK", "0")) == chosen_rank(ranks):

        def stall(*_: object) -> None:  # the name by which py-spy shows it
            time.sleep(seconds)

        register_optimizer_step_pre_hook(stall)


def chosen_rank(ranks: int, folder: Path | None = None) -> int:
    """Return the rank that is made slow in a run in a folder, by default the current one.

    It is the same for all runs with as many ranks in that folder, also on other nodes that share the folder.
    """
    inode = (folder or Path.cwd()).stat().st_ino
    return hashlib.sha256(str(inode).encode()).digest()[0] % ranks
