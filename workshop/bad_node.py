"""A node that is slower than the others, to practise on: a config that strikes one makes one of the ranks slow.

from workshop.bad_node import strike

strike(seconds=0.3)
"""

import getpass
import hashlib
import os
import platform
import time

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


def struck_rank(ranks: int) -> int:
    """Which one it is: for a person on a machine always the same one, so that recordings agree with each other."""
    who = f"{getpass.getuser()}@{platform.node()}"
    return hashlib.sha256(who.encode()).digest()[0] % ranks
