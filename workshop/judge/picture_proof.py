"""Whether pictures are read and enter the model as in the original, anew in each epoch, and not in advance."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from workshop.judge.inputs import MAX_ITEMS
from workshop.judge.ledger import Ledger, epochs, forwards_in, targets_in
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.signatures import SAME_PICTURE, Array, distance, unit, values_of
from workshop.judge.transform_proof import MAX_BY_CHANCE
from workshop.judge.two_samples import hypergeometric
from workshop.probe.events import SAMPLES, PhotoRead, StepTaken, is_random

MIN_CHANCE_OF_BLANK = 1e-4
"""Chance, at least, of so many blank pictures among the candidate's: more have not come by chance."""

MAX_AGAIN = 0.1
"""Share, at most, of the pictures that may look exactly as in an earlier epoch: a few are hardly augmented."""

SCALE_TOLERANCE = 0.05
"""Difference, at most, in slope or offset in `check_scale`, relative to the slope; rounding to bytes gives 0.01."""


class PictureReason(ReasonKind):
    """What is said of pictures, from their files to the model."""

    WAIT_UNSEEN = (
        "how long {quick} of {reads} reads of a photo waited cannot be seen: wait for the slow storage with "
        "time.sleep, in the thread that reads",
        UNSEEN,
    )
    NO_WAIT = (
        "{quick} of {reads} reads of a photo did not wait for the slow storage: each must sleep {wait_s:g} s, in the "
        "thread that reads"
    )
    NOT_READ = (
        "only {slow} of {photos} photos were ever read from the slow storage: the others come from data made before "
        "this run, or kept outside the config's cache_dir"
    )
    BLANK = (
        "{candidate[0]} of {candidate[1]} pictures that enter the model show nothing, in the original {original[0]} of "
        "{original[1]}"
    )
    OTHER_SCALE = (
        "channel {channel} enters the model as {candidate[0]:.2f} * value {candidate[1]:+.2f}, in the original as "
        "{original[0]:.2f} * value {original[1]:+.2f}: is the normalisation another one?"
    )
    OTHER_SPREAD = (
        "the values that enter the model have mean {candidate[0]:.2f} and deviation {candidate[1]:.2f}, in the "
        "original {original[0]:.2f} and {original[1]:.2f}: is the normalisation missing?"
    )
    OTHER_TARGET = "{pictures} pictures came with the target of another one, such as {photo}"
    FROZEN = (
        "{share:.0%} of the pictures look exactly as in an earlier epoch: the augmentation is frozen; keep what is "
        "deterministic, and augment what comes out"
    )
    DRAW_KEPT = (
        "one draw of {0} serves for several epochs: what was augmented is kept; keep what is deterministic, and "
        "augment what comes out"
    )
    MADE_BEFORE_RACE = (
        "{pictures} of the pictures in the race had gone through {0} before it began: work that is done in advance is "
        "left out of the race"
    )
    MADE_BEFORE_RUN = (
        "{pictures} of the pictures in a run had gone through {0} before its first step: work that is done in advance "
        "is left out of the race"
    )


def check_reads(original: Ledger, candidate: Ledger, wasted_time_s: float | None) -> Iterator[Reason]:
    """Check that each photo was read at least once, and never faster than its storage allows."""
    if not wasted_time_s:
        return
    slow = slow_reads(candidate, wasted_time_s)
    items = targets_in(epochs(original)[0]).total()
    used = {read for read in candidate.histories.read_for if read}
    quick = used - set(slow)
    slow_photos = {read.photo for read in slow}
    if quick and all(read.waited_otherwise for read in quick):
        yield PictureReason.WAIT_UNSEEN(quick=len(quick), reads=len(used))
    elif quick:
        yield PictureReason.NO_WAIT(quick=len(quick), reads=len(used), wait_s=wasted_time_s)
    elif len(slow_photos) < items:
        yield PictureReason.NOT_READ(slow=len(slow_photos), photos=items)


def slow_reads(ledger: Ledger, wasted_time_s: float) -> list[PhotoRead]:
    """Return the reads whose thread slept long enough; it may sleep once for a whole batch."""
    most_s = ledger.largest_batch.shape[0] * 1.1 * wasted_time_s
    saved_s: dict[tuple[int, int], float] = {}
    slow = []
    for read in ledger.reads:
        saved = min(saved_s.get(read.source, 0.0) + read.slept_s, most_s)
        if saved >= 0.99 * wasted_time_s:  # a sleep is never shorter than asked for
            saved = max(0.0, saved - wasted_time_s)
            slow.append(read)
        saved_s[read.source] = saved
    return slow


def check_blank(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that no more pictures are of a single colour than in the original: these cannot be followed."""
    ours, theirs = ([blank for _, blank in ledger.blank] for ledger in (original, candidate))
    if _chance_of_blank(original, candidate) < MIN_CHANCE_OF_BLANK:
        yield PictureReason.BLANK(candidate=(sum(theirs), len(theirs)), original=(sum(ours), len(ours)))


def _chance_of_blank(original: Ledger, candidate: Ledger) -> float:
    """Return the chance that so many of the blank pictures are the candidate's, with the targets as they are.

    Among the pictures with one target, their number is hypergeometric; the chance is that of the sum over all targets.
    """
    of_target: defaultdict[Any, list[list[bool]]] = defaultdict(lambda: [[], []])
    for script, ledger in enumerate((original, candidate)):
        for target, blank in ledger.blank:
            of_target[target][script].append(blank)
    sums, seen = np.ones(1), 0
    for ours, theirs in of_target.values():
        sums = np.convolve(sums, hypergeometric(len(theirs), len(ours), sum(ours) + sum(theirs)))
        seen += sum(theirs)
    return float(sums[seen:].sum())


def check_scale(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the values that enter the model are scaled and shifted (normalised) as in the original."""
    ours, theirs = (
        [each.scale for each in ledger.known_pictures if each.scale is not None] for ledger in (original, candidate)
    )
    if not ours or not theirs or ours[0].shape != theirs[0].shape:
        yield from _check_spread(original, candidate)
        return
    expected = np.nanmedian(ours, axis=0)
    known = [(channel, scale[channel]) for scale in theirs for channel in np.flatnonzero(np.isfinite(scale[:, 0]))]
    wrong = [
        (channel, line)
        for channel, line in known
        if np.abs(line - expected[channel]).max() > SCALE_TOLERANCE * abs(expected[channel, 0])
    ]
    if len(wrong) > 2 * MAX_BY_CHANCE * len(known):
        channel, line = wrong[len(wrong) // 2]
        yield PictureReason.OTHER_SCALE(channel=channel, candidate=line, original=expected[channel])


def _check_spread(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    ours, theirs = map(_values_of_channels, (original, candidate))
    for one, other in zip(ours, theirs, strict=False):
        least = 1e-3 * abs(one.mean()) + 1e-9  # where all values are the same, they deviate by rounding
        ratio = (other.std() + least) / (one.std() + least)
        if abs(one.mean() - other.mean()) > 0.5 * one.std() + least or not 0.6 < ratio < 1.6:
            figures = [(values.mean(), values.std()) for values in (other, one)]
            yield PictureReason.OTHER_SPREAD(candidate=figures[0], original=figures[1])
            return


def _values_of_channels(ledger: Ledger) -> Array:
    """Return the values of all signatures, one row per channel, 0 for what is no number."""
    channels = ledger.forwards[0].shape[1] if len(ledger.forwards[0].shape) == 4 else 1
    values = [values_of(forward.pictures).reshape(-1, channels, SAMPLES) for forward in ledger.forwards]
    return np.nan_to_num(np.concatenate(values)).swapaxes(0, 1).reshape(channels, -1)


def check_targets(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that each picture comes with its own target."""
    true = {each.photo: each.target for each in original.known_pictures if each.photo}
    wrong = [each.photo for each in candidate.known_pictures if each.photo in true and true[each.photo] != each.target]
    if wrong:
        yield PictureReason.OTHER_TARGET(pictures=len(wrong), photo=wrong[0])


def check_freshness(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that a picture looks different in each epoch, as the augmentation makes it."""
    steps = len(epochs(original)[0])
    augments = any(each.draws for each in original.known_pictures)
    seen_twice = len(epochs(original, steps)) > 1
    if any(len(each.targets or ()) != each.pictures.shape[0] for each in (*original.forwards, *candidate.forwards)):
        return  # pictures cannot be told from each other
    if largest_share_repeated(original, steps) > MAX_AGAIN or not (augments or seen_twice):
        return
    if (share := largest_share_repeated(candidate, steps)) > MAX_AGAIN:
        yield PictureReason.FROZEN(share=share)
        return
    uses = Counter(draw for each in candidate.known_pictures for draw in each.draws)
    again = [name for (name, *_), count in uses.items() if count > 1]
    if len(again) > 0.03 * len(candidate.pictures):
        yield PictureReason.DRAW_KEPT(min(again))  # the same one in each run of the judge


def share_repeated(earlier: Sequence[StepTaken], later: Sequence[StepTaken]) -> float:
    """Return the share of later pictures that look exactly like an earlier one with the same target."""
    known: defaultdict[Any, list[Array]] = defaultdict(list)
    for target, picture in _pictures_with_target(earlier):
        known[target].append(picture)
    stacked = {target: np.stack(pictures) for target, pictures in known.items()}
    found = [(target, picture) for target, picture in _pictures_with_target(later) if picture.any()]
    some = random.Random(len(found)).sample(found, min(len(found), MAX_ITEMS))
    comes_again = (
        target in stacked and (distance(stacked[target], picture) < SAME_PICTURE / 5).any() for target, picture in some
    )
    return sum(comes_again) / max(len(some), 1)


def _pictures_with_target(steps: Sequence[StepTaken]) -> Iterator[tuple[Any, Array]]:
    for forward in forwards_in(steps):
        yield from zip(forward.targets or (), unit(values_of(forward.pictures)), strict=False)


def largest_share_repeated(ledger: Ledger, steps: int) -> float:
    """Return the largest share of repeated pictures between two epochs of the same run."""
    cut = epochs(ledger, steps)
    pairs = [*pairwise(cut), *((cut[0], later) for later in cut[2:])]
    return max((share_repeated(a, b) for a, b in pairs if a[0].run_index == b[0].run_index), default=0.0)


PICTURE_CHECKS = (check_blank, check_scale, check_targets, check_freshness)


def check_stock(original: Ledger, candidate: Ledger, raced_s: tuple[float, float]) -> Iterator[Reason]:
    """Check that pictures were made as they were used, but for at most an epoch of prefetching.

    This holds for the race, and for each run of the script from its first step on.
    """
    items = targets_in(epochs(original)[0]).total()
    runs: dict[int, list[float]] = defaultdict(list)
    for step in candidate.steps:
        runs[step.run_index] += [forward.t for forward in step.forwards]
    stages = [(PictureReason.MADE_BEFORE_RACE, *raced_s)]
    stages += [(PictureReason.MADE_BEFORE_RUN, min(times), max(times)) for times in runs.values() if times]

    def missing(ledger: Ledger, begin: float, end: float) -> dict[str, int]:
        used = sum(forward.shape[0] for forward in ledger.forwards if begin < forward.t < end)
        made: Counter[str] = Counter()
        for call in ledger.transforms:
            names = {each.name for each in call.simple if is_random(each.name)}
            made.update(dict.fromkeys(names, call.after.shape[0] * (begin < call.t < end)))
        return {name: used - count for name, count in made.items()}

    for kind, begin, end in stages:
        ours, theirs = missing(original, begin, end), missing(candidate, begin, end)
        for name in sorted(ours.keys() & theirs.keys()):
            if ours[name] <= items < theirs[name]:
                yield kind(name, pictures=theirs[name])
                return
