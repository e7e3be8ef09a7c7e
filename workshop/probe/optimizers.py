"""The optimizers of this process, and the parameters that they step."""

import gc
from collections.abc import Iterable

from torch import nn
from torch.optim.optimizer import Optimizer


def parameters_of(optimizer: Optimizer) -> list[nn.Parameter]:
    """Return the parameters of all groups of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def all_optimizers() -> list[Optimizer]:
    """Return every optimizer that there is in this process."""
    return [each for each in gc.get_objects() if type(each).__module__ != "weakref" and _is_optimizer(each)]


def owner_of(parameters: Iterable[nn.Parameter]) -> Optimizer | None:
    """Return the optimizer that has all of these parameters; None if there is none, or if there are several."""
    wanted = set(parameters)
    owners = [each for each in all_optimizers() if wanted.issubset(parameters_of(each))]
    return owners[0] if len(owners) == 1 else None


def _is_optimizer(thing: object) -> bool:
    return issubclass(type(thing), Optimizer) and bool(getattr(thing, "param_groups", None))
