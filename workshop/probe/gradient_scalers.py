"""The gradient scalers of a script, and their scales, which are others while it takes a recorded step."""

from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.optim.optimizer import Optimizer


class GradientScalers:
    """Knows the scalers that a script has made, in their order, and keeps their scales while others are lent."""

    def __init__(self) -> None:
        self._made = WeakValueDictionary[int, Any]()
        self._own: list[dict[str, Any]] = []  # while others are lent, and until they have been put back for good
        self._is_lent = self._is_updated = False

    def add(self, scaler: Any) -> None:
        """Note one that was made."""
        self._made[len(self._made)] = scaler

    def states(self) -> list[dict[str, Any]]:
        """Return the scale of each that is enabled, and what it becomes."""
        return [each.state_dict() for each in self._made.values() if each.is_enabled()]

    def settings(self) -> dict[str, Any]:
        """Return how the first one that is enabled finds its scale, from which it follows which steps it leaves out."""
        for each in self._made.values():
            if each.is_enabled():
                names = ("growth_interval", "growth_factor", "backoff_factor")
                return {name: getattr(each, f"get_{name}")() for name in names}
        return {}

    def lend(self, states: list[dict[str, Any]]) -> None:
        """Give them others for a step."""
        self._own = self._own or self.states()
        self._is_lent, self._is_updated = True, False
        self._load(states)

    def put_back(self) -> None:
        """Give them their own again, as the step is over."""
        self._is_lent = False
        self._load(self._own)
        if self._is_updated:
            self._own = []

    def after_update(self) -> None:
        """One was updated: if that still belongs to the step that is over, it gets its own scale back."""
        self._is_updated = True
        if self._own and not self._is_lent:
            self._load(self._own)
            self._own = []

    def _load(self, states: list[dict[str, Any]]) -> None:
        enabled = [each for each in self._made.values() if each.is_enabled()]
        for scaler, state in zip(enabled, states, strict=False):
            scaler.load_state_dict(state)


def scale_of(optimizer: Optimizer) -> float | torch.Tensor:
    """Return the scale that gradients have before an optimizer's step and not after it, as with a fused one."""
    scale = getattr(optimizer, "grad_scale", None)
    return 1.0 if scale is None else scale


def leaves_out(optimizer: Optimizer) -> bool:
    """Return whether an optimizer finds in its own step that it must leave it out, as a fused one does."""
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(found)
