"""An optimizer whose groups of parameters have the same options: it steps one group after the other."""

from collections.abc import Generator
from typing import Any

from torch.optim.optimizer import Optimizer

from workshop.probe.cause import Moment, TriedCause
from workshop.probe.phases import Phase
from workshop.probe.trials.other_optimizer import makes_optimizer, step, stepped_copy
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_optimizer

NO_OPTIONS = ("params", "param_names", "name")
"""What is in a group and says only which parameters they are."""


@of_optimizer(
    TriedCause(
        "merged-groups",
        "The optimizer ({about}) steps one group of parameters after the other, though many have the same options: "
        "give it one group for those whose options stay the same, {setting}.",
        phases=(Phase.OPTIMIZER,),
        moment=Moment.WATCHING,
        is_asked_by=makes_optimizer,
    )
)
def merged(optimizer: Optimizer) -> Generator[Pass, None, str]:
    """One group for all parameters with the same options.

    Returns:
        The number of groups, in words.
    """
    as_it_is, changed = stepped_copy(optimizer), stepped_copy(optimizer)
    before, groups = len(changed.param_groups), dict[str, dict[str, Any]]()
    for group in changed.param_groups:
        options = str({name: value for name, value in group.items() if name not in NO_OPTIONS})
        groups.setdefault(options, {**group, "params": []})["params"] += group["params"]
    if len(groups) == before:
        raise NothingToTryError("it has no groups with the same options")
    changed.param_groups = [*groups.values()]
    yield lambda: step(as_it_is)
    yield lambda: step(changed)
    return f"{len(groups)} instead of {before}"
