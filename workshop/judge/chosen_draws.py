"""Whether random transforms take the draws that come, or some that were chosen.

A script may set the random generator back until it gives a draw that it likes, such as a quick one. Each draw is then
one of torchvision's, but they are not distributed as they should be: the numbers that the generator gives out next are
not uniform. Whatever a transform makes of them, it takes their remainders (a choice of one in so many) or their lower
24 bits (a real number), so these are tested. The bounds hold for any number of draws: of the distribution function of
real numbers by Dvoretzky, Kiefer and Wolfowitz, with Massart's constant (Annals of Probability 18, 1990); of shares, of
remainders and of ranges, by Agrawal (IEEE Transactions on Information Theory 66, 2020).
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from workshop.judge.ledger import Ledger
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.two_samples import RARE, TOO_RARE

CHOICES = range(2, 33)
"""Things that a transform chooses among: the remainders of a division by each of these numbers are looked at."""

BITS = 24
"""Random bits that torch makes a real number of, in single precision."""

RANGES = 8
"""Ranges of the same length into which a real number may fall."""


class DrawReason(ReasonKind):
    """What is said of draws that were chosen."""

    CHOSEN = (
        "the draws of {0} are chosen: the random numbers that it starts with, in {draws} draws, are not distributed as "
        "torch's generator gives them out"
    )


def check_draws_come_by_chance(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the numbers that a random transform starts with are distributed as the generator draws them."""
    ours, theirs = map(_numbers, (original, candidate))
    for name in sorted(ours.keys() & theirs.keys()):
        if chance_of_numbers(theirs[name]) < TOO_RARE and chance_of_numbers(ours[name]) > RARE:
            yield DrawReason.CHOSEN(name, draws=len(theirs[name]))


def _numbers(ledger: Ledger) -> dict[str, NDArray[np.uint32]]:
    """Return the next numbers of the generator at each draw of each random transform, one row a state."""
    draws: dict[str, set[str]] = defaultdict(set)
    for call in ledger.transforms:
        for each in call.simple:
            if each.draw:
                draws[each.name].add(each.draw)
    return {name: np.array([np.frombuffer(bytes.fromhex(each), ">u4") for each in of]) for name, of in draws.items()}


def chance_of_numbers(numbers: NDArray[np.uint32]) -> float:
    """Return a bound on the chance that rows of independent, uniform numbers of 32 bits are so far from uniform."""
    low = numbers.T % 2**BITS
    families = (
        [_chance_of_reals(each / 2**BITS) for each in low],
        [_chance_of_shares(each * RANGES >> BITS, RANGES) for each in low],
        [_chance_of_shares(each % choices, choices) for each in numbers.T for choices in CHOICES],
    )
    return min(1.0, *(min(each) * len(each) * len(families) for each in families))


def _chance_of_reals(values: NDArray[np.float64]) -> float:
    steps = np.arange(len(values) + 1) / len(values)
    values = np.sort(values)
    off = max(np.max(values - steps[:-1]), np.max(steps[1:] - values))
    return float(2 * np.exp(-2 * len(values) * off**2))


def _chance_of_shares(chosen: NDArray[np.uint32], choices: int) -> float:
    shares = np.bincount(chosen, minlength=choices) / len(chosen)
    shares = shares[shares > 0]
    times = len(chosen) * float(np.sum(shares * np.log(shares * choices)))  # the relative entropy
    free = choices - 1
    return float(np.exp(free * (1 + np.log(times / free)) - times)) if times > free else 1.0
