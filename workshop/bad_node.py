"""A node that is slower than the others, to practise on: a config that strikes one makes one of the ranks slow.

from workshop.bad_node import strike

strike(seconds=0.3)
"""

import hashlib
import os
import time
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_pre_hook


def strike(seconds: float) -> None:
    """Have one rank of this run wait before each step of its optimizer. A run of one process stays as it is.

    Args:
        seconds: for each step.
    """
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1 and int(os.environ.get("RANK", "0")) == struck_rank(ranks):

        def stall(*_: object) -> None:
            time.sleep(seconds)

        register_optimizer_step_pre_hook(stall)


def struck_rank(ranks: int, folder: Path | None = None) -> int:
    """Which one it is: in a folder always the same one, so that recordings agree, and nodes that share it do, too.

    Args:
        ranks: how many there are.
        folder: the one that the run is started in; None for this one.
    """
    number = (folder or Path.cwd()).stat().st_ino
    return hashlib.sha256(str(number).encode()).digest()[0] % ranks
