"""What is shared out to the ranks of a run: each keeps, and steps, a part of one whole."""

import sys
from typing import Any

from torch.optim.optimizer import Optimizer


def inner_optimizer(optimizer: Optimizer) -> Optimizer:
    """Return the optimizer that steps this rank's part, inside of a `ZeroRedundancyOptimizer`; another one as it is.

    The outer one has all parameters, with the settings of the inner one, and no state.
    """
    module: Any = sys.modules.get("torch.distributed.optim")
    sharded = getattr(module, "ZeroRedundancyOptimizer", ())  # torch may be built without it
    return optimizer.optim if isinstance(optimizer, sharded) else optimizer
