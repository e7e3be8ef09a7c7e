"""Whether torchvision's random transforms draw for each picture, by chance, and not in advance.

A script may set the random generator back until it gives a draw that it likes, such as a quick one. Each draw is then
one of torchvision's, but they are not distributed as they should be: the numbers that the generator gives out next are
not uniform. Whatever a transform makes of them, it takes their remainders (a choice of one in so many) or their lower
24 bits (a real number), so these are tested. The bounds hold for any number of draws: of the distribution function of
real numbers by Dvoretzky, Kiefer and Wolfowitz, with Massart's constant (Annals of Probability 18, 1990); of shares, of
remainders and of ranges, by Agrawal (IEEE Transactions on Information Theory 66, 2020).
"""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from workshop.judge.item_proof import are_made_alike
from workshop.judge.ledger import Ledger, epochs, targets_in
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.two_samples import MAX_BY_CHANCE, RARE, TOO_RARE
from workshop.probe.messages import Repetition

MAX_AGAIN = 0.05
"""Share, at most, of the draws that may begin with a state that was used before, as by chance."""

SAME_RESULT = 0.005
"""Difference, at most, between a transform's results for the same draw; rounding to bytes gives 0.001."""

CHOICES = range(2, 33)
"""Things that a transform chooses among: the remainders of a division by each of these numbers are looked at."""

BITS = 24
"""Random bits that torch makes a real number of, in single precision."""

RANGES = 8
"""Ranges of the same length into which a real number may fall."""


class DrawReason(ReasonKind):
    """What is said of the draws of random transforms."""

    SHARED = "{pictures} pictures share one draw of a random transform; in the original {originals}"
    NOT_OWN = "{pictures} pictures share one draw of a random transform; the original draws for each"
    OTHER_SETTING = "{0} has {1}={candidate}, in the original {original}"
    OTHER_SIZE = "the pictures that enter {0} are {candidate} pixels, the original's {original}"
    ADDED = "{0} draws for {drawn} of {pictures} pictures, in the original for none"
    MAY_REPLACE = "{0}; whether it replaces another transform cannot be seen", UNSEEN
    NOT_SEEN = (
        "{0} draws for none of the pictures, and what takes its place cannot be seen: use the transforms of "
        "torchvision, and call them as objects",
        UNSEEN,
    )
    OTHER_RESULT = (
        "{0} does not do what torchvision's {0} does: applied again with the same draw, {differing} of {pictures} "
        "pictures differ"
    )
    NOT_APPLIED_AGAIN = "{errors} of {transforms} random transforms could not be applied again: {error}", UNSEEN
    STATE_USED_BEFORE = (
        "{again} of {draws} {things} start from a random state that was used before: each needs a draw of its own, in "
        "each worker"
    )
    CHOSEN = (
        "the draws of {0} are chosen: the random numbers that it starts with, in {draws} draws, are not distributed as "
        "torch's generator gives them out"
    )
    KEPT = (
        "{0} drew for {pictures} fewer pictures than entered the model: what it makes is kept, or was made in advance; "
        "keep what is deterministic, and augment what comes out"
    )


def check_own_draws(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that no more pictures share a draw than in the original."""
    ours, theirs = (max((each.pictures for each in ledger.draws), default=1) for ledger in (original, candidate))
    if theirs > ours:
        kind = DrawReason.SHARED if ours > 1 else DrawReason.NOT_OWN
        yield kind(pictures=theirs, originals=ours)


def check_names(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the same random transforms are applied, unless the original makes the same of the same items."""
    ours, theirs = map(_drawn, (original, candidate))
    if not ours or are_made_alike(candidate.recomputed):
        return
    missing, pictures = sorted(ours.keys() - theirs.keys()), candidate.items_in(slice(None))
    for name in sorted(theirs.keys() - ours.keys()):
        if theirs[name] > MAX_BY_CHANCE * pictures:
            added = DrawReason.ADDED(name, drawn=theirs[name], pictures=pictures)
            yield DrawReason.MAY_REPLACE(added) if missing else added
            return
    if missing:
        yield DrawReason.NOT_SEEN(missing[0])


def draws_are_known(original: Ledger, candidate: Ledger) -> bool:
    """Return whether the candidate is seen to apply the random transforms of the original, of which there are some."""
    names = _drawn(original).keys()
    return bool(names) and names <= _drawn(candidate).keys()


def draws_are_shared(original: Ledger, candidate: Ledger) -> bool:
    """Return whether items that were asked for with a seed were drawn as the original does it with the same seed.

    Then each of its random transforms has begun with the same random states, as many as there are such items.
    """
    made = [each.made for each in candidate.recomputed if each.made and each.made.is_seeded]
    items, names = sum(each.items for each in made), _drawn(original).keys()
    ours, theirs = ({(each.name, each.draw) for each in of} for of in (original.drawn_anew, candidate.draws))
    shared = Counter(name for name, _ in ours & theirs)
    return bool(items and names) and all(shared[name] >= items for name in names)


def _drawn(ledger: Ledger) -> Counter[str]:
    """Count the pictures that each random transform was applied to."""
    drawn: Counter[str] = Counter()
    for each in ledger.draws:
        drawn[each.name] += each.pictures
    return drawn


def check_repeated(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that each random transform gives the same result as torchvision's own for the same draw.

    Transforms that differ in the original itself are left out.
    """
    off = {each.name for each in original.repeated if each.difference > SAME_RESULT}
    by_name: dict[str, list[Repetition]] = {}
    for each in candidate.repeated:
        if each.error is None and each.name not in off:
            by_name.setdefault(each.name, []).append(each)
    for name, found in sorted(by_name.items()):
        differing = sum(each.difference > SAME_RESULT for each in found)
        most = len(found) / 2 if any(each.threads for each in found) else 0  # threads share the random generator
        if differing > most:
            yield DrawReason.OTHER_RESULT(name, differing=differing, pictures=len(found))
    errors = [each.error for each in candidate.repeated if each.error is not None]
    count = len(candidate.repeated)
    if len(errors) > MAX_BY_CHANCE * count and not any(each.error is not None for each in original.repeated):
        yield DrawReason.NOT_APPLIED_AGAIN(errors=len(errors), transforms=count, error=errors[0])


def check_settings(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that no transform has a setting that it never has in the original; for two crops, it may have two."""
    ours, theirs = map(_settings, (original, candidate))
    for name, setting in sorted(ours.keys() & theirs.keys()):
        if others := theirs[name, setting] - ours[name, setting]:
            expected = min(ours[name, setting])
            yield DrawReason.OTHER_SETTING(name, setting, candidate=min(others), original=expected)
            return


def _settings(ledger: Ledger) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, setting, value in {(each.name, *item) for each in ledger.draws for item in each.settings.items()}:
        found[name, setting].add(value)
    return found


def check_sizes(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the largest pictures that enter a random transform are such as in the original, in any order."""
    if not original.draws or not candidate.draws:
        return
    largest = max(candidate.draws, key=lambda each: each.size)
    expected = {each.size for each in original.draws}
    if largest.size not in expected and len(expected) == 1:
        sizes = (" x ".join(map(str, size)) for size in (largest.size, *expected))
        yield DrawReason.OTHER_SIZE(largest.name, candidate=next(sizes), original=next(sizes))


def check_states(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that no random state is used for two draws of the same run and rank, whichever worker it is."""
    for things, states in (("random transforms", _states_of_transforms), ("batches", _states_of_batches)):
        (ours, _), (again, draws) = (_used_before(ledger, states(ledger)) for ledger in (original, candidate))
        if not ours and again > MAX_AGAIN * draws:
            yield DrawReason.STATE_USED_BEFORE(again=again, draws=draws, things=things)
            return


States: TypeAlias = Iterable[tuple[float, set[Hashable]]]
"""The time of each draw, and what names the states of the generators that it began with."""


def _states_of_transforms(ledger: Ledger) -> States:
    return ((each.t, {(each.rank, each.name, each.draw)}) for each in ledger.draws)


def _states_of_batches(ledger: Ledger) -> States:
    return ((each.t, {(each.rank, *state) for state in each.states.items()}) for each in ledger.batches)


def _used_before(ledger: Ledger, draws: States) -> tuple[int, int]:
    """Count the draws that begin with a state which the same run has used before, and all draws."""
    ends = sorted({step.run_index: step.t for step in ledger.steps}.values())
    used, again, count = set[Hashable](), 0, 0
    for t, states in draws:
        of_run = {(bisect(ends, t), state) for state in states}
        again, count = again + bool(of_run & used), count + 1
        used |= of_run
    return again, count


def check_chance(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the numbers that a random transform starts with are distributed as the generator draws them."""
    ours, theirs = map(_numbers, (original, candidate))
    for name in sorted(ours.keys() & theirs.keys()):
        if chance_of_numbers(theirs[name]) < TOO_RARE and chance_of_numbers(ours[name]) > RARE:
            yield DrawReason.CHOSEN(name, draws=len(theirs[name]))


DRAW_CHECKS = (check_own_draws, check_settings, check_sizes, check_names, check_repeated, check_states, check_chance)


def check_stock(original: Ledger, candidate: Ledger, raced_s: tuple[float, float] | None = None) -> Iterator[Reason]:
    """Check that random transforms draw for the pictures as these are used, but for at most an epoch of prefetching.

    This holds for each run of the script from its first step on, and for the race, if its begin and end are given.
    """
    items = targets_in(epochs(original)[0]).total()
    runs: dict[int, list[float]] = defaultdict(list)
    for step in candidate.steps:
        runs[step.run_index] += [forward.t for forward in step.forwards]
    stages = [(min(times), max(times)) for times in runs.values() if times]
    stages += [raced_s] if raced_s else []

    def missing(ledger: Ledger, begin: float, end: float) -> dict[str, int]:
        used = sum(forward.shape[0] for forward in ledger.forwards if begin < forward.t < end)
        drawn: Counter[str] = Counter()
        for each in ledger.draws:
            drawn[each.name] += each.pictures * (begin < each.t < end)
        return {name: used - count for name, count in drawn.items()}

    for stage in stages:
        ours, theirs = missing(original, *stage), missing(candidate, *stage)
        for name in sorted(ours.keys() & theirs.keys()):
            if ours[name] <= items < theirs[name]:
                yield DrawReason.KEPT(name, pictures=theirs[name])
                return


def _numbers(ledger: Ledger) -> dict[str, NDArray[np.uint32]]:
    """Return the next numbers of the generator at each draw of each random transform, one row a state."""
    draws: dict[str, set[str]] = defaultdict(set)
    for each in ledger.draws:
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
