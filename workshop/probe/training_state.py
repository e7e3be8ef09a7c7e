"""What a training step depends on and changes: models, and the state of optimizers."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.gradient_scalers import GradientScalers
from workshop.probe.internals import tree_map
from workshop.probe.optimizers import parameters_of
from workshop.probe.sharding import inner_optimizer, shared_like, whole

HOW_COMPUTED = ("params", "foreach", "fused", "capturable", "differentiable")
"""The settings of a parameter group that say how a step is computed, not what; they stay as they are."""

MAX_VALUES = 4096
"""The number of values of a tensor that are kept of what a step has made of it, for the most part."""


class TrainingState:
    """The tensors of all models, and the optimizers that step them.

    Args:
        followed: the parameters of the first model, if it may not show them now, as one that is sharded; it need not be
            given for others.
        copies: copies of the first model that change with it, such as an average.
        scalers: the gradient scalers.

    Attributes:
        parameters: those of the models, then those that belong to an optimizer alone, then those of the copies; each
            comes once.
        copied: the number of those of the copies.
        buffers: those of the models, such as the running means of batch norm.
        owners: the optimizer of each parameter that has one.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        optimizers: Sequence[Optimizer],
        followed: Sequence[nn.Parameter] = (),
        copies: Sequence[nn.Module] = (),
        scalers: GradientScalers | None = None,
    ) -> None:
        self.scalers = scalers or GradientScalers()
        stepped = [(each, owner) for owner in optimizers for each in parameters_of(owner)]
        self.owners: dict[nn.Parameter, Optimizer] = dict(stepped)
        of_models = [each for model in models[bool(followed) :] for each in model.parameters()]
        own = dict.fromkeys([*followed, *of_models, *self.owners])
        of_copies = (each for copy in copies for each in copy.parameters())
        self.parameters: list[nn.Parameter] = list(own | dict.fromkeys(of_copies))
        self.copied = len(self.parameters) - len(own)
        self.buffers = list({id(each): each for model in models for each in model.buffers()}.values())

    def leave_out_copies(self, tensors: int) -> None:
        """Leave the copies of the model out, if only so many tensors are known of another script."""
        if tensors == len(self.parameters) - self.copied:
            self.parameters, self.copied = self.parameters[:tensors], 0

    def copy(self) -> dict[str, Any]:
        """Return copies of all tensors, and of the optimizers' state for each parameter."""
        return {
            "parameters": clones(self.parameters),
            "buffers": clones(self.buffers),
            "scales": self.scalers.states(),
            "state": [plain_copy(self.state_of(parameter)) for parameter in self.parameters],
        }

    def load(self, copied: Mapping[str, Any]) -> None:
        """Take over the tensors that `copy` returned, here or in another process."""
        ours, theirs = [*self.parameters, *self.buffers], [*copied["parameters"], *copied["buffers"]]
        with torch.no_grad():
            for one, other in zip(ours, theirs, strict=True):
                one.copy_(shared_like(one, other))

    def load_state(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Give the optimizers the state for each parameter that `copy` returned."""
        for parameter, state in zip(self.parameters, states, strict=True):
            if (known := self._states(parameter)) is not None:
                usual = known.get(parameter, {})
                known[parameter] = {name: _like(value, usual.get(name), parameter) for name, value in state.items()}

    def own_state(self) -> list[Any]:
        """Return the optimizers' state for each parameter itself, not a copy; None where there is none."""
        return [(self._states(parameter) or {}).get(parameter) for parameter in self.parameters]

    def put_back(self, own: Sequence[Any]) -> None:
        """Give the optimizers the state that `own_state` returned."""
        for parameter, state in zip(self.parameters, own, strict=True):
            if (known := self._states(parameter)) is not None:
                known.pop(parameter, None)
                if state is not None:
                    known[parameter] = state

    def state_of(self, parameter: nn.Parameter) -> dict[str, Any]:
        """Return the state that an optimizer has for a parameter; empty if there is none."""
        return (self._states(parameter) or {}).get(parameter, {})

    def _states(self, parameter: nn.Parameter) -> dict[Any, Any] | None:
        """Return what the optimizer of a parameter has of all of its parameters; None if it has no optimizer."""
        owner = self.owners.get(parameter)
        return inner_optimizer(owner).state if owner else None

    def some_values(self, places: Sequence[torch.Tensor] | None = None) -> list[dict[str, torch.Tensor]]:
        """Return some values of each parameter, and of each tensor in the optimizers' state for it.

        `places` are those of the values in each parameter, if they are not the usual ones.
        """
        found = []
        for parameter, of_parameter in zip(self.parameters, places or [None] * len(self.parameters), strict=True):
            tensors = {"parameter": parameter, **self.state_of(parameter)}
            found.append(
                {name: some_of(each, of_parameter) for name, each in tensors.items() if isinstance(each, torch.Tensor)}
            )
        return found


def settings_of(optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> dict[int, dict[str, Any]]:
    """Return the settings that an optimizer has for its parameters, by their numbers."""
    numbers = {parameter: number for number, parameter in enumerate(parameters)}
    return {
        numbers[parameter]: plain_copy({name: value for name, value in group.items() if name not in HOW_COMPUTED})
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter in numbers
    }


def load_settings(
    optimizer: Optimizer, parameters: Sequence[nn.Parameter], settings: Mapping[int, Mapping[str, Any]]
) -> None:
    """Give each group the settings that `settings_of` returned for the first of its parameters."""
    numbers = {parameter: number for number, parameter in enumerate(parameters)}
    for group in optimizer.param_groups:
        known = (settings[numbers[each]] for each in group["params"] if numbers.get(each) in settings)
        for name, value in next(known, {}).items():
            if name in group and not isinstance(group[name], torch.Tensor):
                group[name] = value
            elif name in group:
                group[name] = torch.as_tensor(value, dtype=group[name].dtype, device=group[name].device)


def some_of(tensor: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
    """Return some values of a tensor, evenly spaced or at these places; the one value of a count of steps."""
    flat = whole(tensor.detach()).flatten()
    if places is not None and flat.numel() > 1:
        return flat[places]
    return flat[:: -(-flat.numel() // MAX_VALUES) or 1].clone()


def some_places(tensor: torch.Tensor) -> torch.Tensor:
    """Return the places of the values that `some_of` takes of a tensor."""
    return some_of(torch.arange(tensor.numel(), device=tensor.device))


def clones(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return copies of tensors, without their history."""
    return [whole(tensor.detach()).clone() for tensor in tensors]


def plain_copy(values: Any) -> Any:
    """Return a copy that a file can hold: tensors and plain values, in plain dictionaries and sequences."""

    def copied(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return whole(value.detach()).as_subclass(torch.Tensor).clone()
        return value if isinstance(value, int | float | str | None) else str(value)

    return tree_map(copied, dict(values) if isinstance(values, Mapping) else values)


def _like(value: Any, usual: Any, parameter: nn.Parameter) -> Any:
    """A copy of a value of an optimizer's state, which optimizers change in place, on the device where it belongs."""
    if not isinstance(value, torch.Tensor):
        return value
    if not isinstance(usual, torch.Tensor):
        usual = parameter if value.shape == parameter.shape else value
    return shared_like(usual, value.to(usual.device, copy=True))
