"""Modules of the same shapes that are called one after the other, and all of them at once."""

import copy
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from workshop.probe.backward_graph import nodes_below
from workshop.probe.cause import Extent, Moment, TriedCause
from workshop.probe.optimizers import owner_of
from workshop.probe.phases import COMPUTING
from workshop.probe.trials.copies import (
    copied_model,
    copied_optimizer,
    drop_hooks,
    one_thread,
)
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model

MANY_MODULES = 8
"""Modules of the same shapes, at least, that are worth calling at once."""


@dataclass
class _ModuleCall:
    """A call in a pass through a copy of a model."""

    module: nn.Module
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    within: tuple[nn.Module, ...]
    """The modules that call it, the outermost first."""
    output: Any = None

    @property
    def is_plain(self) -> bool:
        """Whether tensors go in, by their place, and one comes out."""
        return not self.options and all(isinstance(each, torch.Tensor) for each in (*self.inputs, self.output))


def _calls(model: nn.Module, inputs: Any, options: Any) -> list[_ModuleCall]:
    """Return the calls of a pass through a copy of the model, in the order in which they begin."""
    calls, ahead = list[_ModuleCall](), list[_ModuleCall]()

    def enter(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        calls.append(_ModuleCall(module, given, named, tuple(each.module for each in ahead)))
        ahead.append(calls[-1])

    def leave(*about: Any) -> None:
        ahead.pop().output = about[-1]

    for each in model.modules():
        each.register_forward_pre_hook(enter, with_kwargs=True)
        each.register_forward_hook(leave, always_call=True)
    model(*inputs, **options)
    for each in model.modules():
        drop_hooks(each)
    return calls


@of_model(TriedCause("small-modules", phases=COMPUTING, moment=Moment.CLOSER_LOOK, extent=Extent.PASSES_OR_ALL))
def small_modules(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """Forward, backward and the optimizer's step of the largest group of such modules, with torch.func."""
    copied = copied_model(model)
    groups = [each for each in _groups(_calls(copied, inputs, options)) if not _depend_on_each_other(each)]
    if not groups:
        raise NothingToTryError(f"it calls no {MANY_MODULES} modules of the same shapes, each with inputs of its own")
    calls = max(groups, key=lambda group: len(group) * len(list(group[0].module.modules())))
    modules = [each.module for each in calls]
    originals = dict(zip(copied.parameters(), model.parameters(), strict=True))
    own = {originals[each]: each for module in modules for each in module.parameters()}
    optimizer = owner_of(own)
    if optimizer is None:
        raise NothingToTryError("no single optimizer has the parameters of these modules")
    given = [tuple(_apart(each) for each in call.inputs) for call in calls]
    stacked = [_stacked(alike) for alike in zip(*given, strict=True)]
    state, buffers = stack_module_state(modules)
    parameters = {name: nn.Parameter(each.detach()) for name, each in state.items()}
    plain = copy.deepcopy(modules[0])

    def call(parameters: Any, buffers: Any, *row: torch.Tensor) -> torch.Tensor:
        return functional_call(plain, (parameters, buffers), row)

    def step(outputs: torch.Tensor, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        outputs.sum().backward()
        optimizer.step()
        return outputs

    of_all = copied_optimizer(optimizer, own)
    of_first = {originals[each]: parameters[name] for name, each in modules[0].named_parameters()}
    of_stacked = copied_optimizer(optimizer, of_first)
    of_stacked.state = defaultdict(dict)
    with one_thread():
        yield lambda: step(torch.stack([module(*row) for module, row in zip(modules, given, strict=True)]), of_all)
        yield lambda: step(vmap(call, randomness="different")(parameters, buffers, *stacked), of_stacked)


def _groups(calls: Sequence[_ModuleCall]) -> list[list[_ModuleCall]]:
    """Return the outermost calls that have much in common: classes, shapes of parameters, and of inputs."""
    times, by_shape = Counter(each.module for each in calls), defaultdict[Any, list[_ModuleCall]](list)
    for call in calls:
        parts = tuple((name, type(each)) for name, each in call.module.named_modules())
        shapes = tuple(each.shape for each in call.module.parameters())
        if times[call.module] == 1 and call.is_plain and shapes and call.output.requires_grad:
            given = tuple((each.shape, each.dtype) for each in call.inputs)
            by_shape[parts, shapes, given, call.module.training].append(call)
    groups = [each for each in by_shape.values() if len(each) >= MANY_MODULES]
    members = {call.module for group in groups for call in group}
    inside = {part for module in members for part in module.modules() if part is not module}
    return [each for each in groups if not inside.intersection(call.module for call in each)]


def _depend_on_each_other(calls: Sequence[_ModuleCall]) -> bool:
    """Return whether the output of one goes into another, as in the layers of a network."""
    ahead = [each.grad_fn for call in calls for each in call.inputs if each.grad_fn is not None]
    return bool({call.output.grad_fn for call in calls}.intersection(nodes_below(ahead)))


def _apart(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that is no part of a graph, but has a gradient if the original has one."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _stacked(alike: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack(tuple(alike)).detach().requires_grad_(alike[0].requires_grad)
