"""Whether the optimizers are the same as the original's, with the same settings in each step."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from workshop.judge.ledger import Ledger
from workshop.judge.reasons import Reason, ReasonKind
from workshop.probe.events import OtherOptimizer, ParameterGroup, StepTaken

FREE_SETTINGS = ("foreach", "fused", "capturable", "differentiable", "initial_lr", "max_lr", "min_lr", "swa_lr")
"""Optimizer settings that say how it computes, not what, and those that only a scheduler needs."""

MAX_STEPS_OFF = 0.02
"""Steps, at most, that another model's optimizer may take more or less for each step of the first model's."""


class OptimizerReason(ReasonKind):
    """What is said of optimizers and their settings."""

    IN_STEP = "in step {step}, "
    OTHER_OPTIMIZER = "{where}the optimizer is {0}, the original's {1}"
    OTHER_SETTING = "{where}the optimizer's {0} is {candidate}, the original's {original}"
    OTHER_SETTING_OF_GROUP = (
        "{where}the optimizer's {0} is {candidate} for {tensors} of its tensors, the original's {original}"
    )
    SETTING_LEFT_OUT = "{where}the original's optimizer has other settings for {tensors} of its tensors: {0} {original}"
    OF_ANOTHER_MODEL = "another model's {0} ({parameters:,} parameters)"
    NEVER_STEPS = "{0} never steps"
    STEPS_SELDOM = (
        "{0} steps {candidate:.2f} times for each step of the first model, in the original {original:.2f} times"
    )
    MOVES_FEW = "{0} moves only {moved} of its {tensors} tensors"
    OTHER_SETTING_OF_MODEL = "the {0} of {1} is {candidate}, the original's {original}"


def check_optimizer(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the optimizers are of the same kind, with the same settings for all parameters in each step.

    The first runs are compared step by step, as far as both have come; only their first steps if the settings depend on
    how the training goes. Settings that the original never changes must be the same in later runs, too. Where the
    original's loop has taken steps of others, or a gradient scaler has left some out, a schedule may count them, or
    not: it is enough if one of these agrees.
    """
    ours, theirs = ([step for step in ledger.steps if step.groups] for ledger in (original, candidate))
    if not ours or not theirs:
        return
    first, others = ([step for step in steps if not step.run_index] for steps in (ours, theirs))
    pairs = list(zip(first, others, strict=False))
    stepped = list(zip(*([each for each in of if not each.is_skipped] for of in (first, others)), strict=False))
    counted = [(number + each.retaken, each) for number, each in enumerate(first)]
    shifted = [(each, others[number]) for number, each in counted if number < len(others)]
    ways = [pairs, shifted, stepped]
    if original.model and original.model.adaptive:
        ways = [pairs[:1]]
    elif all(step.groups == ours[0].groups for step in ours):
        ways = [[*pairs, *((ours[0], step) for step in theirs if step.run_index)]]
    complaints = list(map(_first_other, ways))
    if complaints[0] and all(complaints):
        yield complaints[0]


def _first_other(pairs: Sequence[tuple[StepTaken, StepTaken]]) -> Reason | None:
    """Return what differs first in pairs of steps; None if nothing does."""
    for number, (one, other) in enumerate(pairs, start=1):
        where = "" if number == 1 else OptimizerReason.IN_STEP(step=number)
        if complaint := next(_other_groups(one.groups, other.groups, where), None):
            return complaint
    return None


def _other_groups(
    ours: Sequence[ParameterGroup], theirs: Sequence[ParameterGroup], where: Reason | str
) -> Iterator[Reason]:
    """Complain about parameter groups with a different optimizer or different settings; `where` says in which step."""
    if (found := {group.optimizer for group in theirs}) != (expected := {group.optimizer for group in ours}):
        yield OptimizerReason.OTHER_OPTIMIZER(*(" and ".join(sorted(each)) for each in (found, expected)), where=where)
    for group in theirs:
        others = [list(_other_settings(group.settings, each.settings)) for each in ours]
        if all(others):
            name, candidate, original = min(others, key=len)[0]
            kind = OptimizerReason.OTHER_SETTING_OF_GROUP if len(theirs) > 1 else OptimizerReason.OTHER_SETTING
            figures = {"candidate": _text(candidate), "original": _text(original), "tensors": group.tensors}
            yield kind(name, **figures, where=where)
    for group in ours:
        if all(list(_other_settings(each.settings, group.settings)) for each in theirs):
            name, _, original = next(_other_settings(theirs[0].settings, group.settings))
            figures = {"original": _text(original), "tensors": group.tensors}
            yield OptimizerReason.SETTING_LEFT_OUT(name, **figures, where=where)


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


def check_other_optimizers(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the optimizers of other models step as often, with the same settings, and move as many tensors."""
    ours, theirs = (_others(ledger) for ledger in (original, candidate))
    for (kind, parameters), epochs in ours.items():
        which = OptimizerReason.OF_ANOTHER_MODEL(kind, parameters=parameters)
        found = theirs.get((kind, parameters))
        if not found:
            yield OptimizerReason.NEVER_STEPS(which)
            continue
        theirs_followed, followed = (max(1, len(ledger.optimizer_steps)) for ledger in (candidate, original))
        often = sum(each.steps for each in found) / theirs_followed
        expected = sum(each.steps for each in epochs) / followed
        # The last step of a run may not be noted.
        if abs(often - expected) > MAX_STEPS_OFF + 2 / min(theirs_followed, followed):
            yield OptimizerReason.STEPS_SELDOM(which, candidate=often, original=expected)
        elif _share_moved(most := max(found, key=_share_moved)) < 0.9 * max(map(_share_moved, epochs)):
            yield OptimizerReason.MOVES_FEW(which, moved=most.moved, tensors=len(most.shapes))
        elif other := next(_other_settings(found[0].settings, epochs[0].settings), None):
            setting, value, expected = other
            values = {"candidate": _text(value), "original": _text(expected)}
            yield OptimizerReason.OTHER_SETTING_OF_MODEL(setting, which, **values)


def _share_moved(other: OtherOptimizer) -> float:
    return other.moved / max(len(other.shapes), 1)


def _others(ledger: Ledger) -> dict[tuple[str, int], list[OtherOptimizer]]:
    """The epochs of each optimizer, by its class and the number of its parameters' values, which may be joined anew."""
    found: dict[tuple[str, int], list[OtherOptimizer]] = {}
    for each in ledger.others:
        found.setdefault((each.optimizer, sum(map(math.prod, each.shapes))), []).append(each)
    return found
