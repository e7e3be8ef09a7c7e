"""Modules of the same shapes, called one after the other: all of them at once, with torch.func."""

import copy
from collections import defaultdict
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
from workshop.probe.trials.copies import copied_model, copied_optimizer, drop_hooks, one_thread
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model

MANY_MODULES = 8
"""Modules of the same shapes, at least, that are worth calling at once."""


@dataclass
class _ModuleCall:
    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    output: torch.Tensor


@of_model(TriedCause("small-modules", phases=COMPUTING, moment=Moment.CLOSER_LOOK, extent=Extent.PASSES_OR_ALL))
def small_modules(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """Forward, backward and the optimizer's step of the largest group of such modules."""
    copied = copied_model(model)
    groups = [each for each in _groups(_calls(copied, inputs, options)) if not _depend_on_each_other(each)]
    if not groups:
        raise NothingToTryError(f"it calls no {MANY_MODULES} modules of the same shapes, each with inputs of its own")
    calls = max(groups, key=lambda group: len(group) * len(list(group[0].module.modules())))
    modules = [each.module for each in calls]
    given = [tuple(_apart(each) for each in call.inputs) for call in calls]
    originals = dict(zip(copied.parameters(), model.parameters(), strict=True))
    parameters, buffers = stack_module_state(modules)
    plain = copy.deepcopy(modules[0])
    stacked = [torch.stack([_apart(each) for each in alike]).detach() for alike in zip(*given, strict=True)]
    for all_rows, row in zip(stacked, given[0], strict=True):
        all_rows.requires_grad_(row.requires_grad)

    def call(parameters: Any, buffers: Any, *row: torch.Tensor) -> torch.Tensor:
        return functional_call(plain, (parameters, buffers), row)

    def one_by_one() -> torch.Tensor:
        return torch.stack([module(*row) for module, row in zip(modules, given, strict=True)])

    def at_once() -> torch.Tensor:
        return vmap(call, randomness="different")(parameters, buffers, *stacked)

    of_first = [originals[each] for each in modules[0].parameters()]
    optimizer = owner_of(originals[each] for module in modules for each in module.parameters())
    if optimizer is None:
        raise NothingToTryError("no single optimizer has the parameters of these modules")
    of_all = copied_optimizer(optimizer, {originals[each]: each for module in modules for each in module.parameters()})
    names = [name for name, _ in modules[0].named_parameters()]
    alike = dict(zip(of_first, (nn.Parameter(parameters[name].detach()) for name in names), strict=True))
    parameters = dict(zip(names, alike.values(), strict=True))
    of_stacked = copied_optimizer(optimizer, alike)
    of_stacked.state = defaultdict(dict)

    def step(outputs: torch.Tensor, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        outputs.sum().backward()
        optimizer.step()
        return outputs

    with one_thread():
        yield lambda: step(one_by_one(), of_all)
        yield lambda: step(at_once(), of_stacked)


def _calls(model: nn.Module, inputs: Any, options: Any) -> list[_ModuleCall]:
    """Return the calls of a pass through a copy of the model: modules that are called once, with tensors alone."""
    calls: dict[nn.Module, list[_ModuleCall]] = defaultdict(list)

    def note(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        is_plain = all(isinstance(each, torch.Tensor) for each in (*given, output)) and not named
        calls[module] += [_ModuleCall(module, given, output)] if is_plain else []

    for each in model.modules():
        each.register_forward_hook(note, with_kwargs=True)
    model(*inputs, **options)
    for each in model.modules():
        drop_hooks(each)
    return [each for of_module in calls.values() if len(of_module) == 1 for each in of_module]


def _groups(calls: Sequence[_ModuleCall]) -> list[list[_ModuleCall]]:
    """Return the outermost calls that have much in common: classes, shapes of parameters, and of inputs."""
    by_shape: dict[Any, list[_ModuleCall]] = defaultdict(list)
    for call in calls:
        parts = tuple((name, type(each)) for name, each in call.module.named_modules())
        shapes = tuple(each.shape for each in call.module.parameters())
        if shapes and call.output.requires_grad:
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
