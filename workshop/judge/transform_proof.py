"""Whether pictures are decoded and augmented as in the original, with draws that come by chance.

A script may set the random generator back until it gives a draw that it likes, such as a quick one. Each draw is then
one of torchvision's, but they are not distributed as they should be: the numbers that the generator gives out next are
not uniform. Whatever a transform makes of them, it takes their remainders (a choice of one in so many) or their lower
24 bits (a real number), so these are tested. The bounds hold for any number of draws: of the distribution function of
real numbers by Dvoretzky, Kiefer and Wolfowitz, with Massart's constant (Annals of Probability 18, 1990); of shares, of
remainders and of ranges, by Agrawal (IEEE Transactions on Information Theory 66, 2020).
"""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from workshop.judge.ledger import Ledger, epochs
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.signatures import distance
from workshop.judge.two_samples import RARE, TOO_RARE, hypergeometric
from workshop.probe.events import is_random
from workshop.probe.messages import Repetition

SAME_DECODED = 0.03
"""Distance, at most, between signatures of decoded pictures. Honest decoders stay below 0.010; nearest-neighbour
interpolation gives 0.6, greyscale 1.1, JPEG quality 5 0.8, a JPEG draft 0.09, bicubic interpolation 0.06."""

MAX_BY_CHANCE = 0.05
"""Share, at most, of the steps, pictures or draws that may differ by chance."""

SAME_RESULT = 0.005
"""Difference, at most, between a transform's results for the same draw; rounding to bytes gives 0.001."""

MIN_SHARE_OF_ALL = 0.97
"""Share, at least, of the pictures that a transform is seen on which is applied to all: some are lost from sight."""

CHOICES = range(2, 33)
"""Things that a transform chooses among: the remainders of a division by each of these numbers are looked at."""

BITS = 24
"""Random bits that torch makes a real number of, in single precision."""

RANGES = 8
"""Ranges of the same length into which a real number may fall."""


class TransformReason(ReasonKind):
    """What is said of the transforms that pictures go through."""

    OTHER_DECODED_SIZE = "the pictures that enter {0} are {candidate} pixels, the original's {original}"
    OTHER_DECODED = (
        "{wrong} of {pictures} pictures that enter {0} are not what the original makes of the photos: their median "
        "distance is {distance:.2f}, with honest decoders below 0.01"
    )
    LESS_OFTEN = "{0} was applied to {seen} of {pictures} pictures, in the original to {often} of {originals}"
    NOT_ON_ALL = "{0} was applied to {seen} of {pictures} pictures, in the original to all"
    NOT_SEEN_ON_ALL = (
        "{0} was seen to be applied to {seen} of {pictures} pictures, and what makes the others cannot be seen: use "
        "the transforms of torchvision, and call them as objects",
        UNSEEN,
    )
    DRAW_SHARED = "{pictures} pictures share one draw of a random transform; in the original {originals}"
    DRAW_NOT_OWN = "{pictures} pictures share one draw of a random transform; the original draws for each"
    CHANGED_UNSEEN = (
        "something that cannot be seen has changed {unseen} of {pictures} pictures on their way: use the transforms of "
        "torchvision, and call them as objects",
        UNSEEN,
    )
    OTHER_SETTING = "{0} has {1}={candidate}, in the original {original}"
    ADDED = "{0} changes {changed} of {pictures} pictures, in the original none"
    MAY_REPLACE = "{0}; whether it replaces another transform cannot be seen", UNSEEN
    OTHER_RESULT = (
        "{0} does not do what torchvision's {0} does: applied again with the same draw, {differing} of {pictures} "
        "pictures differ"
    )
    NOT_APPLIED_AGAIN = "{errors} of {transforms} random transforms could not be applied again: {error}", UNSEEN
    STATE_USED_BEFORE = (
        "{again} of {draws} random transforms start from a random state that was used before: each picture needs a "
        "draw of its own, in each worker"
    )


class DrawReason(ReasonKind):
    """What is said of draws that were chosen."""

    CHOSEN = (
        "the draws of {0} are chosen: the random numbers that it starts with, in {draws} draws, are not distributed as "
        "torch's generator gives them out"
    )


def check_decoded(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the deterministic part of the preprocessing gives the same result for each photo."""
    ours, theirs = (
        [(each, each.decoded) for each in ledger.known_pictures if each.decoded is not None]
        for ledger in (original, candidate)
    )
    if not ours or not theirs:
        return
    sizes = Counter(each.decoded_size for each, _ in ours)
    names = (each.name for each in reversed(theirs[0][0].simple) if is_random(each.name))
    first = next(names, "a random transform")  # one that contains others, as RandomApply, is not among them
    others = [each.decoded_size for each, _ in theirs if each.decoded_size not in sizes]
    if len(others) > MAX_BY_CHANCE * len(theirs):
        size, expected = (dimensions(size or ()) for size in (others[0], sizes.most_common(1)[0][0]))
        yield TransformReason.OTHER_DECODED_SIZE(first, candidate=size, original=expected)
        return
    widths = {len(decoded) for _, decoded in ours}  # grey pictures have fewer channels
    known = {width: np.stack([decoded for _, decoded in ours if len(decoded) == width]) for width in widths}
    nearest = np.array([distance(known[len(each)], each).min() if len(each) in known else np.inf for _, each in theirs])
    wrong = nearest[nearest > SAME_DECODED]
    if len(wrong) > 2 * MAX_BY_CHANCE * len(nearest):
        median = np.median(wrong)
        yield TransformReason.OTHER_DECODED(first, wrong=len(wrong), pictures=len(nearest), distance=median)


def check_transforms(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that each random transform is applied to each picture, with the same settings and its own random draw.

    Where the original leaves one out by chance, as inside of `RandomApply`, it must not be left out more often.
    """
    ours = original.known_pictures
    expected = dict.fromkeys(simple.name for picture in ours for simple in picture.simple)
    if not expected:
        return
    known, pictures = candidate.known_pictures, len(candidate.pictures)
    unseen = pictures - sum(not each.has_gap for each in known)
    our_shared, shared = (max((each.shared_by for each in of), default=1) for of in (ours, known))
    for name in filter(is_random, expected):
        often, seen = (sum(name in [each.name for each in picture.simple] for picture in of) for of in (ours, known))
        applied = {"seen": seen, "pictures": pictures}
        if often < MIN_SHARE_OF_ALL * len(ours):
            most = min(seen + unseen, pictures)
            chance = hypergeometric(pictures, len(ours), often + most)[: most + 1].sum()
            if our_shared == 1 and chance < TOO_RARE:
                yield TransformReason.LESS_OFTEN(name, **applied, often=often, originals=len(ours))
        elif seen >= MIN_SHARE_OF_ALL * pictures:
            yield from _check_settings(name, original, candidate)
        elif seen + unseen < MIN_SHARE_OF_ALL * pictures:
            yield TransformReason.NOT_ON_ALL(name, **applied)
        else:
            yield TransformReason.NOT_SEEN_ON_ALL(name, **applied)
            return
    yield from _check_no_more(original, candidate)
    if shared > our_shared:
        kind = TransformReason.DRAW_SHARED if our_shared > 1 else TransformReason.DRAW_NOT_OWN
        yield kind(pictures=shared, originals=our_shared)
    if unseen > MAX_BY_CHANCE * pictures and not any(each.has_gap for each in ours):
        yield TransformReason.CHANGED_UNSEEN(unseen=unseen, pictures=pictures)


def _check_settings(name: str, original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that a transform has no settings that it never has in the original; for two crops, it may have two."""
    ours, theirs = (
        [each.settings for picture in ledger.known_pictures for each in picture.simple if each.name == name]
        for ledger in (original, candidate)
    )
    for setting in sorted(set().union(*ours)):
        expected, found = ({each[setting] for each in of if setting in each} for of in (ours, theirs))
        if others := found - expected:
            yield TransformReason.OTHER_SETTING(name, setting, candidate=min(others), original=min(expected))


def _check_no_more(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that, from the first random transform on, only those transforms change pictures that do in the original.

    A transform that replaces another, or something that cannot be seen, may do the same work.
    """
    ours, theirs = ([each.changed_by for each in ledger.known_pictures] for ledger in (original, candidate))
    expected, known = set().union(*ours), {each.name for picture in original.known_pictures for each in picture.simple}
    count = Counter(name for names in theirs for name in names - expected - known or names - expected)
    replaced = expected - set().union(*theirs) or any(each.has_gap for each in original.known_pictures)
    for name, changed in count.items():
        if changed > MAX_BY_CHANCE * len(theirs):
            added = TransformReason.ADDED(name, changed=changed, pictures=len(theirs))
            yield TransformReason.MAY_REPLACE(added) if replaced else added


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
            yield TransformReason.OTHER_RESULT(name, differing=differing, pictures=len(found))
    errors = [each.error for each in candidate.repeated if each.error is not None]
    count = len(candidate.repeated)
    if len(errors) > MAX_BY_CHANCE * count and not any(each.error is not None for each in original.repeated):
        yield TransformReason.NOT_APPLIED_AGAIN(errors=len(errors), transforms=count, error=errors[0])


def check_draws(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that no random state is used for two draws of the same process, or of the same epoch and rank."""
    steps = len(epochs(original)[0])

    def repeated(ledger: Ledger) -> tuple[int, int]:
        ends = [epoch[-1].t for epoch in epochs(ledger, steps)]
        draws = [(made, each.name, each.draw) for made in ledger.transforms for each in made.simple if each.draw]
        of_process = {(made.source[0], *draw) for made, *draw in draws}
        of_epoch = {(made.rank, bisect(ends, made.t), *draw) for made, *draw in draws}
        return len(draws) - min(len(of_process), len(of_epoch)), len(draws)

    (ours, _), (again, draws) = repeated(original), repeated(candidate)
    if not ours and again > 2 * MAX_BY_CHANCE * draws:
        yield TransformReason.STATE_USED_BEFORE(again=again, draws=draws)


def dimensions(shape: Sequence[int]) -> str:
    """Return a shape as text, such as "3 x 64 x 64"."""
    return " x ".join(str(size) for size in shape)


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


TRANSFORM_CHECKS = (check_decoded, check_transforms, check_draws, check_repeated, check_draws_come_by_chance)
