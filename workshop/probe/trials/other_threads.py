"""Another number of threads for each operator: small operators wait for their threads, large ones can use more."""

from collections.abc import Callable, Generator
from time import monotonic
from typing import Any

import torch
from torch import nn

from workshop.probe.cause import PASSES, CausePlace, Extent, FirstLook, Moment, TriedCause
from workshop.probe.own_limits import usable_cores
from workshop.probe.phases import COMPUTING
from workshop.probe.trials.copies import copied_model, forward_and_backward
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import of_model


def _lacks_threads(look: FirstLook) -> bool:
    """Return whether operators run on one thread, and could use more."""
    has = look.circumstances
    return has.device == "cpu" and has.threads == 1 < look.cores and not has.forked


@of_model(
    TriedCause(
        "one-thread",
        "The operators run on one thread, though there are more cores: leave the number of threads to torch, or set it "
        "to what was tried, {setting}.",
        phases=COMPUTING,
        moment=Moment.BEFORE,
        is_worth_it=_lacks_threads,
        extent=Extent.ALL,
        is_asked_by=lambda made, _: made.function == "set_num_threads" and "1" in made.values,
    )
)
@of_model(
    TriedCause(
        "other-threads",
        "The model ({about}) is faster with {setting} for each operator: torch.set_num_threads({number}).",
        CausePlace.OPTION,
        seconds=lambda pass_s, _: (PASSES + 12) * pass_s,  # with those of the search, about
        needs_idle_cores=True,
    )
)
def other_threads(model: nn.Module, inputs: Any, options: Any) -> Generator[Pass, None, str]:
    """The number of threads that is the fastest in a short search: halved again and again, and doubled up to the cores.

    Returns:
        The number that was tried, in words.

    Raises:
        NothingToTryError: there is no other number, or the model computes on a GPU.
    """
    before, cores = torch.get_num_threads(), usable_cores()
    fewer = [number for number in _doubled(1, before) if number < before]
    more = [number for number in (*_doubled(2 * before, cores), cores) if number > before]
    if not (fewer or more) or next(model.parameters()).device.type != "cpu":
        raise NothingToTryError("there is one core, or a GPU that computes")
    model = copied_model(model)

    def with_threads(number: int) -> torch.Tensor:
        torch.set_num_threads(number)
        return forward_and_backward(model, inputs, options)

    try:
        seconds = {before: _seconds(with_threads, before)}
        for ahead in (fewer[::-1], more):
            for number in dict.fromkeys(ahead):
                seconds[number] = _seconds(with_threads, number)
                if seconds[number] > 1.05 * min(seconds.values()):  # the next number would take longer still
                    break
        best = min((number for number in seconds if number != before), key=seconds.__getitem__)
        yield lambda: with_threads(before)
        yield lambda: with_threads(best)
    finally:
        torch.set_num_threads(before)
    return f"{best} thread{'s' * (best > 1)}"


def _doubled(number: int, most: int) -> list[int]:
    """Return a number, its double, and so on, up to the largest allowed."""
    found = []
    while number <= most:
        found.append(number)
        number *= 2
    return found


def _seconds(with_threads: Callable[[int], object], number: int) -> float:
    """Return the seconds of the shortest of some passes with a number of threads."""
    seconds = []
    for _ in range(3):  # the first does not count
        begin = monotonic()
        with_threads(number)
        seconds.append(monotonic() - begin)
    return min(seconds[1:])
