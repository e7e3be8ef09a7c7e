"""Other implementations of the same optimizer: fused into one operator, or for all tensors at a time."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.cause import CausePlace, TriedCause
from workshop.probe.observations import SettingMade
from workshop.probe.optimizers import parameters_of
from workshop.probe.phases import Phase
from workshop.probe.trials.copies import copied_optimizer
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_optimizer


def _cause(name: str, words: str) -> TriedCause:
    return TriedCause(
        name, words, CausePlace.OPTION, phases=(Phase.OPTIMIZER,), group="optimizers", is_asked_by=makes_optimizer
    )


def makes_optimizer(made: SettingMade, name: str) -> bool:
    """Return whether a call has made an optimizer of this class."""
    return made.function == "Optimizer" and made.values[:1] == (name,)


@of_optimizer(
    _cause(
        "fused-optimizer",
        "The optimizer ({about}) is faster with one operator for all parameters: pass fused=True to it.",
    )
)
def fused(optimizer: Optimizer) -> Iterator[Pass]:
    """One operator for all parameters."""
    yield from _with(optimizer, {"fused": True, "foreach": False})


@of_optimizer(
    _cause(
        "foreach-optimizer",
        "The optimizer ({about}) is faster if it steps all parameters at a time: pass foreach=True to it.",
    )
)
def foreach(optimizer: Optimizer) -> Iterator[Pass]:
    """Each operator for all parameters at a time."""
    yield from _with(optimizer, {"fused": False, "foreach": True})


def _with(optimizer: Optimizer, setting: dict[str, bool]) -> Iterator[Pass]:
    groups = optimizer.param_groups
    wanted = next(name for name, value in setting.items() if value)
    own = all(group.get(name) is not None for group in groups for name in setting if name in group)
    if wanted not in groups[0] or any(group.get(wanted) for group in groups):
        raise NothingToTryError(f"{type(optimizer).__name__} has no such implementation, or it is in use")
    if any(group.get("differentiable") for group in groups) or (own and wanted == "foreach" and groups[0].get("fused")):
        raise NothingToTryError("another implementation is in use")
    as_it_is, changed = stepped_copy(optimizer), stepped_copy(optimizer)
    for group in changed.param_groups:
        group.update({name: value for name, value in setting.items() if name in group})
    if wanted == "fused":
        for parameter, state in changed.state.items():
            if isinstance(state.get("step"), torch.Tensor):
                state["step"] = state["step"].to(parameter.device)
    yield lambda: step(as_it_is)
    yield lambda: step(changed)


def step(optimizer: Optimizer) -> torch.Tensor:
    """Step, and return the first parameter."""
    optimizer.step()
    return parameters_of(optimizer)[0]


def stepped_copy(optimizer: Optimizer) -> Optimizer:
    """Return a copy that can step, with copies of all parameters that have a gradient.

    Raises:
        NothingToTryError: it has no gradients, or sparse ones.
    """
    copies = {}
    for each in parameters_of(optimizer):
        if each.grad is None:
            continue
        if each.grad.is_sparse:
            raise NothingToTryError("it has sparse gradients")
        copies[each] = nn.Parameter(each.detach().clone())
        copies[each].grad = each.grad.detach().clone()
    if not copies:
        raise NothingToTryError("it has no gradients")
    return copied_optimizer(optimizer, copies)
