"""Whether pictures are read and enter the model as in the original, anew in each epoch, and not in advance."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from workshop.judge.ledger import Ledger, epochs, forwards_in, targets_in
from workshop.judge.signatures import SAME_PICTURE, Array, distance, unit, values_of
from workshop.judge.transform_proof import FEW
from workshop.judge.two_samples import hypergeometric
from workshop.judge.verdict import UnseenWork
from workshop.probe.events import SAMPLES, PhotoRead, StepTaken, is_random

FEW_BLANK = 1e-4
"""More blank pictures than come about with this chance are too many."""

LOOKED_FOR = 500
"""So many pictures of an epoch are looked for in another one, and all of them if the share is not clear then."""

FEW_AGAIN, MANY_AGAIN = 0.03, 0.3
"""Below the one and above the other, the share of all of them is on the same side of a tenth, almost for certain."""

SCALE_TOLERANCE = 0.05
"""The largest difference in slope or offset in `check_scale`, relative to the slope; rounding to bytes gives 0.01."""


def check_reads(original: Ledger, candidate: Ledger, wasted_time_s: float | None) -> Iterator[str]:
    """Check that each photo was read at least once, and never faster than its storage allows."""
    if not wasted_time_s:
        return
    slow = slow_reads(candidate, wasted_time_s)
    items = targets_in(epochs(original)[0]).total()
    used = {read for read in candidate.histories.read_for if read}
    quick = used - set(slow)
    slow_photos = {read.photo for read in slow}
    if quick and all(read.waited_otherwise for read in quick):
        yield UnseenWork(
            f"how long {len(quick)} of {len(used)} reads of a photo waited cannot be seen: wait for the slow storage "
            "with time.sleep, in the thread that reads"
        )
    elif quick:
        yield (
            f"{len(quick)} of {len(used)} reads of a photo did not wait for the slow storage: each must sleep "
            f"{wasted_time_s:g} s, in the thread that reads"
        )
    elif len(slow_photos) < items:
        yield (
            f"only {len(slow_photos)} of {items} photos were ever read from the slow storage: the others come from "
            "data made before this run, or kept outside the config's cache_dir"
        )


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


def check_blank(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that no more pictures are of a single colour than in the original: these cannot be followed."""
    ours, theirs = ([blank for _, blank in ledger.blank] for ledger in (original, candidate))
    if _chance_of_blank(original, candidate) < FEW_BLANK:
        yield (
            f"{sum(theirs)} of {len(theirs)} pictures that enter the model show nothing, in the original {sum(ours)} "
            f"of {len(ours)}"
        )


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


def check_scale(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the values that enter the model are scaled and shifted (normalised) as in the original."""
    ours, theirs = (
        [each.scale for each in ledger.known_pictures if each.scale is not None] for ledger in (original, candidate)
    )
    if not ours or not theirs or ours[0].shape != theirs[0].shape:
        yield from _check_spread(original, candidate)
        return
    usual = np.nanmedian(ours, axis=0)
    known = [(channel, scale[channel]) for scale in theirs for channel in np.flatnonzero(np.isfinite(scale[:, 0]))]
    wrong = [
        (channel, line)
        for channel, line in known
        if np.abs(line - usual[channel]).max() > SCALE_TOLERANCE * abs(usual[channel, 0])
    ]
    if len(wrong) > 2 * FEW * len(known):
        channel, (slope, offset) = wrong[len(wrong) // 2]
        usual_slope, usual_offset = usual[channel]
        yield (
            f"channel {channel} enters the model as {slope:.2f} * value {offset:+.2f}, in the original as "
            f"{usual_slope:.2f} * value {usual_offset:+.2f}: is the normalisation another one?"
        )


def _check_spread(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check mean and deviation of all values that enter the model, where pictures cannot be followed."""
    ours, theirs = map(_values_of_channels, (original, candidate))
    for usual, now in zip(ours, theirs, strict=False):
        least = 1e-3 * abs(usual.mean()) + 1e-9  # where all values are the same, they deviate by rounding
        ratio = (now.std() + least) / (usual.std() + least)
        if abs(usual.mean() - now.mean()) > 0.5 * usual.std() + least or not 0.6 < ratio < 1.6:
            yield (
                f"the values that enter the model have mean {now.mean():.2f} and deviation {now.std():.2f}, in the "
                f"original {usual.mean():.2f} and {usual.std():.2f}: is the normalisation missing?"
            )
            return


def _values_of_channels(ledger: Ledger) -> Array:
    """Return the values of all signatures, one row per channel, 0 for what is no number."""
    channels = ledger.forwards[0].shape[1] if len(ledger.forwards[0].shape) == 4 else 1
    values = [values_of(forward.pictures).reshape(-1, channels, SAMPLES) for forward in ledger.forwards]
    return np.nan_to_num(np.concatenate(values)).swapaxes(0, 1).reshape(channels, -1)


def check_targets(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each picture comes with its own target."""
    true = {each.photo: each.target for each in original.known_pictures if each.photo}
    wrong = [each.photo for each in candidate.known_pictures if each.photo in true and true[each.photo] != each.target]
    if wrong:
        yield f"{len(wrong)} pictures came with the target of another one, such as {wrong[0]}"


def check_freshness(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that a picture looks different in each epoch, as the augmentation makes it."""
    steps = len(epochs(original)[0])
    augments = any(each.draws for each in original.known_pictures)
    seen_twice = len(epochs(original, steps)) > 1
    if any(len(each.targets or ()) != each.pictures.shape[0] for each in (*original.forwards, *candidate.forwards)):
        return  # pictures cannot be told from each other
    if largest_share_repeated(original, steps) > 0.1 or not (augments or seen_twice):
        return
    if (share := largest_share_repeated(candidate, steps)) > 0.1:
        yield (
            f"{share:.0%} of the pictures look exactly as in an earlier epoch: the augmentation is frozen; keep what "
            "is deterministic, and augment what comes out"
        )
        return
    uses = Counter(draw for each in candidate.known_pictures for draw in each.draws)
    again = [name for (name, *_), count in uses.items() if count > 1]
    if len(again) > 0.03 * len(candidate.pictures):
        yield (
            f"one draw of {again[0]} serves for several epochs: what was augmented is kept; keep what is "
            "deterministic, and augment what comes out"
        )


def share_repeated(earlier: Sequence[StepTaken], later: Sequence[StepTaken]) -> float:
    """Return the share of later pictures that look exactly like an earlier one with the same target."""
    known: defaultdict[Any, list[Array]] = defaultdict(list)
    for target, picture in _pictures_with_target(earlier):
        known[target].append(picture)
    stacked = {target: np.stack(pictures) for target, pictures in known.items()}
    found = [(target, picture) for target, picture in _pictures_with_target(later) if picture.any()]

    def share_of(some: list[tuple[Any, Array]]) -> float:
        comes_again = (
            target in stacked and (distance(stacked[target], each) < SAME_PICTURE / 5).any() for target, each in some
        )
        return sum(comes_again) / max(len(some), 1)

    share = share_of(random.Random(len(found)).sample(found, min(len(found), LOOKED_FOR)))
    return share_of(found) if FEW_AGAIN < share < MANY_AGAIN and len(found) > LOOKED_FOR else share


def _pictures_with_target(steps: Sequence[StepTaken]) -> Iterator[tuple[Any, Array]]:
    for forward in forwards_in(steps):
        yield from zip(forward.targets or (), unit(values_of(forward.pictures)), strict=False)


def largest_share_repeated(ledger: Ledger, steps: int) -> float:
    """Return the largest share of repeated pictures between two epochs of the same run."""
    cut = epochs(ledger, steps)
    pairs = [*pairwise(cut), *((cut[0], later) for later in cut[2:])]
    return max((share_repeated(a, b) for a, b in pairs if a[0].run_index == b[0].run_index), default=0.0)


PICTURE_CHECKS = (check_blank, check_scale, check_targets, check_freshness)


def check_stock(original: Ledger, candidate: Ledger, raced_s: tuple[float, float]) -> Iterator[str]:
    """Check that pictures were made as they were used, but for at most an epoch of prefetching.

    This holds for the race, and for each run of the script from its first step on.
    """
    items = targets_in(epochs(original)[0]).total()
    runs: dict[int, list[float]] = defaultdict(list)
    for step in candidate.steps:
        runs[step.run_index] += [forward.t for forward in step.forwards]
    stages = [("the race", "it began", *raced_s)]
    stages += [("a run", "its first step", min(times), max(times)) for times in runs.values() if times]

    def missing(ledger: Ledger, begin: float, end: float) -> dict[str, int]:
        used = sum(forward.shape[0] for forward in ledger.forwards if begin < forward.t < end)
        made: Counter[str] = Counter()
        for call in ledger.transforms:
            names = {each.name for each in call.simple if is_random(each.name)}
            made.update(dict.fromkeys(names, call.after.shape[0] * (begin < call.t < end)))
        return {name: used - count for name, count in made.items()}

    for stage, first, begin, end in stages:
        ours, theirs = missing(original, begin, end), missing(candidate, begin, end)
        for name in sorted(ours.keys() & theirs.keys()):
            if ours[name] <= items < theirs[name]:
                yield (
                    f"{theirs[name]} of the pictures in {stage} had gone through {name} before {first}: work that is "
                    "done in advance is left out of the race"
                )
                return
