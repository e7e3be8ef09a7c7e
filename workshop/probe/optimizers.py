"""The optimizers of this process, the parameters that they step, and those of other models than the one followed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.garbage import all_of
from workshop.probe.sharding import is_sharded
from workshop.probe.spots import Spots, SpotValues, moved


def parameters_of(optimizer: Optimizer) -> list[nn.Parameter]:
    """Return the parameters of all groups of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def all_optimizers() -> list[Optimizer]:
    """Return every optimizer that there is in this process."""
    return [each for each in all_of(Optimizer) if getattr(each, "param_groups", None)]


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


@dataclass
class _Known:
    """An optimizer, and what it has done in this epoch."""

    optimizer: Optimizer
    spots: Spots
    steps: int = 0
    before: SpotValues | None = None
    """Some values of its parameters, as they were before its first step of the epoch."""


@dataclass
class OtherOptimizers:
    """Notes how often each of them steps, and whether it moves its parameters."""

    known: list[_Known] = field(default_factory=list)

    def before_step(self, optimizer: Optimizer) -> None:
        """An optimizer is about to step."""
        found = next((each for each in self.known if each.optimizer is optimizer), None)
        if found is None:
            found = _Known(optimizer, Spots(parameters_of(optimizer)))
            self.known.append(found)
        if not found.steps:
            found.before = found.spots.values([])
        found.steps += 1

    def epoch(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of an `OtherOptimizer` for each, and begin another epoch."""
        self.known = [each for each in self.known if each.steps]  # a script may make one for each batch
        for each in self.known:
            yield {
                "optimizer": type(each.optimizer).__name__,
                "shapes": [tuple(parameter.shape) for parameter in each.spots.parameters],
                "settings": plain_settings(each.optimizer.param_groups[0]),
                "steps": each.steps,
                "moved": len(moved(each.before, each.spots.values([]))),
            }
            each.steps = 0


def plain_settings(group: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a parameter group that are plain values."""
    return {name: value for name, value in group.items() if isinstance(value, (int, float, tuple))}
