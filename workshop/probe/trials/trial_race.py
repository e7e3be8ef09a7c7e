"""A race of two passes: as it is, and with one thing changed."""

import random
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic  # the script may replace that of the module
from typing import TypeAlias

import torch

ROUNDS = 7
MIN_DURATION_S = 0.3
"""Rounds and seconds, at least, of a race; the first round does not count."""

MIN_ROUNDS = 5
MAX_DURATION_S = 4.0
"""Rounds, at least, of a race that takes more seconds than these: fewer hardly tell a difference from noise."""

INTERRUPTED = 1.5
"""The factor, at least, by which passes differ of which other programs interrupt some: such a race has twice as many
rounds."""

MAX_ROUNDS = 40
"""Rounds, at most, of a race, also of the shortest passes."""

Pass: TypeAlias = Callable[[], object]
"""One pass; what it returns, if that is a tensor, is compared with the other's."""


class NothingToTryError(Exception):
    """This model, or this optimizer, has nothing that the trial could change."""


class TooLongError(Exception):
    """The trial takes longer than anybody waits for it."""


def why_not(error: Exception) -> str:
    """Return in one line why a trial could not be made: what cannot be copied fails in many ways."""
    if isinstance(error, TooLongError):
        return "it took too long"
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


@dataclass(frozen=True)
class Raced:
    """What a race has shown."""

    as_it_is_s: float
    """The shortest of some passes, which other programs disturbed least."""
    changed_s: float
    usual_s: float
    """The median of the unchanged passes: with what else the machine does, as in the training."""
    rounds: tuple[tuple[float, float], ...]
    """The seconds of both passes, unchanged and changed, in each round."""
    begin_s: float
    """How much longer the first changed pass took than a later one: what it costs to begin, such as to compile."""
    difference: float | None
    """The largest difference of what the two returned, relative to the largest value; None if it is not known."""
    draws: bool
    """Whether random numbers are drawn, so that the results differ anyway."""


def race(as_it_is: Pass, changed: Pass) -> Raced:
    """Let two passes take turns, also in going first: what comes second may find warm caches, or a hot processor."""
    seconds: tuple[list[float], list[float]] = [], []
    first_s, results = list[float](), list[torch.Tensor | None]([None, None])
    begun, does_draw = monotonic(), False
    for round_ in range(MAX_ROUNDS):
        for number, run in list(enumerate((as_it_is, changed)))[:: -1 if round_ % 2 else 1]:
            begin = monotonic()
            if round_:
                run()
            else:
                results[number], draws = _first(run)
                does_draw |= draws
            wait_for_gpu()
            spent_s = monotonic() - begin
            seconds[number].append(spent_s) if round_ else first_s.append(spent_s)
        spent_s = monotonic() - begun - sum(first_s)
        is_interrupted = round_ > 0 and any(max(each) > INTERRUPTED * min(each) for each in seconds)
        enough, longest = (ROUNDS * (1 + is_interrupted), MIN_DURATION_S), (MIN_ROUNDS, MAX_DURATION_S)
        if any(round_ + 1 >= rounds and spent_s > least_s for rounds, least_s in (enough, longest)):
            break
    shortest = [min(each) for each in seconds]
    return Raced(
        as_it_is_s=shortest[0],
        changed_s=shortest[1],
        usual_s=statistics.median(seconds[0]),
        rounds=tuple(zip(*seconds, strict=True)),
        begin_s=max(0.0, first_s[1] - max(shortest[1], first_s[0])),
        difference=None if does_draw else _difference(*results),
        draws=does_draw,
    )


def _first(run: Pass) -> tuple[torch.Tensor | None, bool]:
    """Run a pass for the first time; return its result, and whether it draws random numbers."""
    before = _random_states()
    result = run()
    draws = any(not torch.equal(*each) for each in zip(before, _random_states(), strict=True))
    return (result.detach().clone() if isinstance(result, torch.Tensor) else None), draws


def _random_states() -> list[torch.Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(each) for each in _devices()), *_states_of_mac()]


def _states_of_mac() -> list[torch.Tensor]:
    return [torch.mps.get_rng_state()] if torch.backends.mps.is_available() else []


def wait_for_gpu() -> None:
    """Wait until a GPU has done all it was asked to."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()


def _difference(one: torch.Tensor | None, other: torch.Tensor | None) -> float | None:
    if one is None or other is None or one.shape != other.shape or not one.numel():
        return None
    one, other = one.double(), other.double()
    largest = one.abs().max()
    return float((one - other).abs().max() / largest) if largest > 0 else float((one - other).abs().max())


def _devices() -> range:
    return range(torch.cuda.device_count()) if torch.cuda.is_initialized() else range(0)


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Let what is drawn inside change nothing outside."""
    state, numpy = random.getstate(), sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    of_mac = _states_of_mac()
    try:
        with torch.random.fork_rng(_devices()):
            yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(numpy_state)
        for each in of_mac:
            torch.mps.set_rng_state(each)
