"""A node that is slower than the others, to practise on: a config that calls `strike` makes one of the ranks slow."""

import hashlib
import os
import time
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_pre_hook


def strike(seconds: float) -> None:
    """Make one rank of this run wait before each optimizer step; a run of one process is not changed.

    Args:
        seconds: the wait before each step.
    """
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1 and int(os.environ.get("RANK", "0")) == struck_rank(ranks):

        def stall(*_: object) -> None:
            time.sleep(seconds)

        register_optimizer_step_pre_hook(stall)


def struck_rank(ranks: int, folder: Path | None = None) -> int:
    """Return the slow rank, which is always the same in a folder: all recordings and all nodes that share it agree.

    Args:
        ranks: the number of ranks.
        folder: the folder that the run is started in; None for the current one.
    """
    inode = (folder or Path.cwd()).stat().st_ino
    return hashlib.sha256(str(inode).encode()).digest()[0] % ranks
