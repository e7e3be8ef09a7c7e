"""Whether the optimizers are the same as the original's, with the same settings in each step."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from workshop.judge.ledger import Ledger
from workshop.probe.events import OtherOptimizer, ParameterGroup, StepTaken

FREE_SETTINGS = ("foreach", "fused", "capturable", "differentiable", "initial_lr", "max_lr", "min_lr", "swa_lr")
"""Optimizer settings that say how it computes, not what, and those that only a scheduler needs."""

FEW_STEPS = 0.02
"""The largest difference in how often another model's optimizer steps, per step of the first model's."""


def check_optimizer(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the optimizers are of the same kind, with the same settings for all parameters in each step.

    The first runs are compared step by step, as far as both have come; only their first steps if the settings depend on
    how the training goes. Settings that the original never changes must be the same in later runs, too. Where the
    original's loop has taken steps of others, a schedule may count them, or not: it is enough if one of these agrees.
    """
    ours, theirs = ([step for step in ledger.steps if step.groups] for ledger in (original, candidate))
    if not ours or not theirs:
        return
    first, others = ([step for step in steps if not step.run_index] for steps in (ours, theirs))
    pairs = list(zip(first, others, strict=False))
    counted = [(number + each.retaken, each) for number, each in enumerate(first)]
    shifted = [(each, others[number]) for number, each in counted if number < len(others)]
    if original.model and original.model.adaptive:
        shifted = pairs = pairs[:1]
    elif all(step.groups == ours[0].groups for step in ours):
        shifted = pairs = [*pairs, *((ours[0], step) for step in theirs if step.run_index)]
    complaint = _first_other(pairs)
    if complaint and _first_other(shifted):
        yield complaint


def _first_other(pairs: Sequence[tuple[StepTaken, StepTaken]]) -> str:
    """Return what differs first in pairs of steps; empty if nothing does."""
    for number, (one, other) in enumerate(pairs, start=1):
        if complaint := next(_other_groups(one.groups, other.groups), None):
            return complaint if number == 1 else f"in step {number}, {complaint}"
    return ""


def _other_groups(ours: Sequence[ParameterGroup], theirs: Sequence[ParameterGroup]) -> Iterator[str]:
    """Complain about parameter groups with a different optimizer or different settings."""
    if (kinds := {group.optimizer for group in theirs}) != (expected := {group.optimizer for group in ours}):
        now, usual = (" and ".join(sorted(each)) for each in (kinds, expected))
        yield f"the optimizer is {now}, the original's {usual}"
    for group in theirs:
        others = [list(_other_settings(group.settings, each.settings)) for each in ours]
        if all(others):
            name, now, usual = min(others, key=len)[0]
            where = f" for {group.tensors} of its tensors" if len(theirs) > 1 else ""
            yield f"the optimizer's {name} is {_text(now)}{where}, the original's {_text(usual)}"
    for group in ours:
        if all(list(_other_settings(each.settings, group.settings)) for each in theirs):
            name, _, usual = next(_other_settings(theirs[0].settings, group.settings))
            where = f" for {group.tensors} of its tensors"
            yield f"the original's optimizer has other settings{where}: {name} {_text(usual)}"


def _other_settings(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    names = ours.keys() & theirs.keys() - set(FREE_SETTINGS)
    for name in sorted(names, key=lambda name: (name != "lr", name)):
        if not _same(ours[name], theirs[name]):
            yield name, theirs[name], ours[name]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6)  # a scheduler may have computed it differently
    return bool(one == other)


def _text(setting: Any) -> str:
    return f"{setting:.8g}" if isinstance(setting, float) else str(setting)


def check_other_optimizers(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the optimizers of other models step as often, with the same settings, and move as many tensors."""
    ours, theirs = (_others(ledger) for ledger in (original, candidate))
    for (kind, shapes), epochs in ours.items():
        name = f"another model's {kind} ({sum(map(math.prod, shapes)):,} parameters)"
        found = theirs.get((kind, shapes))
        if not found:
            yield f"{name} never steps"
            continue
        now_followed, followed = (max(1, len(ledger.optimizer_steps)) for ledger in (candidate, original))
        often = sum(each.steps for each in found) / now_followed
        usual = sum(each.steps for each in epochs) / followed
        if abs(often - usual) > FEW_STEPS + 2 / min(now_followed, followed):  # the last step of a run may not be noted
            yield f"{name} steps {often:.2f} times for each step of the first model, in the original {usual:.2f} times"
        elif (most := max(each.moved for each in found)) < 0.9 * max(each.moved for each in epochs):
            yield f"{name} moves only {most} of its {len(shapes)} tensors"
        elif other := next(_other_settings(found[0].settings, epochs[0].settings), None):
            setting, now, then = other
            yield f"the {setting} of {name} is {_text(now)}, the original's {_text(then)}"


def _others(ledger: Ledger) -> dict[tuple[str, tuple[tuple[int, ...], ...]], list[OtherOptimizer]]:
    """The epochs of each optimizer, by its class and the shapes of its parameters."""
    found: dict[tuple[str, tuple[tuple[int, ...], ...]], list[OtherOptimizer]] = {}
    for each in ledger.others:
        found.setdefault((each.optimizer, tuple(sorted(each.shapes))), []).append(each)
    return found
