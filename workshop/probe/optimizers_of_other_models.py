"""The optimizers of other models than the one that is followed, such as the generator of a GAN."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch.optim.optimizer import Optimizer

from workshop.probe.optimizers import parameters_of
from workshop.probe.spots import Spots, SpotValues, moved


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
