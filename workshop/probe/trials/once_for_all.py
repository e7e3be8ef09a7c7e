"""A module that is called in a loop over rows: once, with all of the rows."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import Moment, TriedCause
from workshop.probe.internals import tree_leaves, tree_map
from workshop.probe.trials.copies import copied_model, drop_hooks, one_thread, sum_of_trained
from workshop.probe.trials.copy_room import ensure_room
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model

MANY_CALLS = 16
"""Calls of a module in a pass, at least, of a loop over small things."""


@of_model(TriedCause("once-for-all", phases=(), moment=Moment.CLOSER_LOOK))
def once_for_all(model: nn.Module, inputs: Any, options: Any) -> Iterator[Pass]:
    """The modules that a pass calls many times: as often as it does, and once with all of the rows."""
    repeated = _repeated_calls(copied_model(model), inputs, options)
    if not repeated:
        raise NothingToTryError(f"it calls no module {MANY_CALLS} times")
    for _, given, times in repeated:  # all rows, their gradients, and what comes of both
        ensure_room((each for each in tree_leaves(given) if isinstance(each, torch.Tensor)), 4 * times)
    once = [(module, _rows(module, given, times), 1) for module, given, times in repeated]
    with one_thread():
        yield lambda: _calls_and_backward(repeated)
        yield lambda: _calls_and_backward(once)


def _calls_and_backward(calls: list[tuple[nn.Module, tuple[Any, ...], int]]) -> None:
    """Call each module its number of times, then run backward from the sum of all outputs."""
    outputs = [module(*given) for module, given, times in calls for _ in range(times)]
    sum_of_trained(outputs).backward()


def _repeated_calls(model: nn.Module, inputs: Any, options: Any) -> list[tuple[nn.Module, tuple[Any, ...], int]]:
    """Return the outermost modules that are called many times in a pass, what they are given first, and how often."""
    times, first, within = Counter[nn.Module](), dict[nn.Module, tuple[Any, tuple[nn.Module, ...]]](), list[nn.Module]()

    def enter(module: nn.Module, given: tuple[Any, ...]) -> None:
        times[module] += 1
        first.setdefault(module, (given, tuple(within)))
        within.append(module)

    def leave(*_: Any) -> None:
        within.pop()

    for each in model.modules():  # it is a copy
        each.register_forward_pre_hook(enter)
        each.register_forward_hook(leave, always_call=True)
    model(*inputs, **options)
    for each in model.modules():
        drop_hooks(each)
    return [
        (module, _rows(module, first[module][0], 1), times[module])
        for module in first
        if times[module] >= MANY_CALLS and all(times[outer] < MANY_CALLS for outer in first[module][1])
    ]


def _rows(module: nn.Module, given: tuple[Any, ...], times: int) -> tuple[Any, ...]:
    """Return a module's inputs, repeated `times` times in a single batch.

    A recurrent module gets one series and no state. A module that is given a single row gets a batch of them.
    """
    recurrent = isinstance(module, (nn.RNNBase, nn.RNNCellBase))
    along = 1 if isinstance(module, nn.RNNBase) and module.batch_first else 0

    def repeat(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.detach()
        if times > 1 and leaf.ndim == 1 and leaf.is_floating_point():  # a single row, without a batch
            leaf = leaf[None]
        rows = torch.cat([leaf] * times, along) if leaf.ndim else leaf
        return rows.requires_grad_(leaf.is_floating_point())

    return tree_map(repeat, given[:1] if recurrent else given)
