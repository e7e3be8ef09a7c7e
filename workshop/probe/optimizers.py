"""The optimizers of this process, and the parameters that they step."""

import gc
from collections.abc import Iterable

from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.sharding import is_sharded


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


def is_only_asked(model: nn.Module) -> bool:
    """Return whether a model seems to be called only for what it says, as a teacher: all optimizers step others.

    The parameters of a model that is sharded are others while it is called, and show nothing.
    """
    parameters, optimizers = set(model.parameters()), all_optimizers()
    if any(is_sharded(each) for each in model.modules()):
        return False
    return bool(optimizers) and parameters.isdisjoint(each for one in optimizers for each in parameters_of(one))


def _is_optimizer(thing: object) -> bool:
    return issubclass(type(thing), Optimizer) and bool(getattr(thing, "param_groups", None))
