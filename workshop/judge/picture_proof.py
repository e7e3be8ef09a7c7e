"""Whether pictures are read, decoded and augmented as in the original, and not in advance of the race."""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean
from typing import Any

import numpy as np

from workshop.judge.ledger import Ledger, epochs, forwards_in, targets_in
from workshop.judge.signatures import SAME_PICTURE, Array, distance, unit, values_of
from workshop.judge.two_samples import TOO_RARE, Strata, hypergeometric
from workshop.judge.verdict import UnseenWork
from workshop.probe.events import SAMPLES, PhotoRead, StepTaken, is_random
from workshop.probe.messages import Repetition

SAME_DECODED = 0.03
"""The largest distance between signatures of decoded pictures. Honest decoders stay below 0.010; nearest-neighbour
interpolation gives 0.6, greyscale 1.1, JPEG quality 5 0.8, a JPEG draft 0.09, bicubic interpolation 0.06."""

FEW = 0.05
"""The share of steps, pictures or draws that may differ by chance."""

FEW_BLANK = 1e-4
"""More blank pictures than come about with this chance are too many."""

SCALE_TOLERANCE = 0.05
"""The largest difference in slope or offset in `check_scale`, relative to the slope; rounding to bytes gives 0.01."""

SAME_RESULT = 0.005
"""The largest difference between a transform's results for the same draw; rounding to bytes gives 0.001."""

ALWAYS = 0.97
"""A transform that was applied to this share of the pictures is applied to all: some are lost from sight."""


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


def check_decoded(original: Ledger, candidate: Ledger) -> Iterator[str]:
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
    if len(others) > FEW * len(theirs):
        now, usual = (dimensions(size or ()) for size in (others[0], sizes.most_common(1)[0][0]))
        yield f"the pictures that enter {first} are {now} pixels, the original's {usual}"
        return
    widths = {len(decoded) for _, decoded in ours}  # grey pictures have fewer channels
    known = {width: np.stack([decoded for _, decoded in ours if len(decoded) == width]) for width in widths}
    nearest = np.array([distance(known[len(each)], each).min() if len(each) in known else np.inf for _, each in theirs])
    wrong = nearest[nearest > SAME_DECODED]
    if len(wrong) > 2 * FEW * len(nearest):
        yield (
            f"{len(wrong)} of {len(nearest)} pictures that enter {first} are not what the original makes of the "
            f"photos: their median distance is {np.median(wrong):.2f}, with honest decoders below 0.01"
        )


def check_transforms(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each random transform is applied to each picture, with the same settings and its own random draw.

    Where the original leaves one out by chance, as inside of `RandomApply`, it must not be left out more often.
    """
    usual = original.known_pictures
    expected = dict.fromkeys(simple.name for each in usual for simple in each.simple)
    if not expected:
        return
    known, pictures = candidate.known_pictures, len(candidate.pictures)
    unseen = pictures - sum(not each.has_gap for each in known)
    usual_shared, shared = (max((each.shared_by for each in of), default=1) for of in (usual, known))
    for name in filter(is_random, expected):
        often, seen = (sum(name in [each.name for each in picture.simple] for picture in of) for of in (usual, known))
        if often < ALWAYS * len(usual):
            most = min(seen + unseen, pictures)
            chance = hypergeometric(pictures, len(usual), often + most)[: most + 1].sum()
            if usual_shared == 1 and chance < TOO_RARE:
                yield f"{name} was applied to {seen} of {pictures} pictures, in the original to {often} of {len(usual)}"
        elif seen >= ALWAYS * pictures:
            yield from _check_settings(name, original, candidate)
        elif seen + unseen < ALWAYS * pictures:
            yield f"{name} was applied to {seen} of {pictures} pictures, in the original to all"
        else:
            yield UnseenWork(
                f"{name} was seen to be applied to {seen} of {pictures} pictures, and what makes the others cannot be "
                "seen: use the transforms of torchvision, and call them as objects"
            )
            return
    yield from _check_no_more(original, candidate)
    if shared > usual_shared:
        says = f"in the original {usual_shared}" if usual_shared > 1 else "the original draws for each"
        yield f"{shared} pictures share one draw of a random transform; {says}"
    if unseen > FEW * pictures and not any(each.has_gap for each in usual):
        yield UnseenWork(
            f"something that cannot be seen has changed {unseen} of {pictures} pictures on their way: use the "
            "transforms of torchvision, and call them as objects"
        )


def _check_settings(name: str, original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that a transform has no settings that it never has in the original; for two crops, it may have two."""
    ours, theirs = (
        [each.settings for picture in ledger.known_pictures for each in picture.simple if each.name == name]
        for ledger in (original, candidate)
    )
    for setting in sorted(set().union(*ours)):
        usual, now = ({each[setting] for each in of if setting in each} for of in (ours, theirs))
        if others := now - usual:
            yield f"{name} has {setting}={min(others)}, in the original {min(usual)}"


def _check_no_more(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that, from the first random transform on, only those transforms change pictures that do in the original.

    A transform that replaces another, or something that cannot be seen, may do the same work.
    """
    ours, theirs = ([each.changed_by for each in ledger.known_pictures] for ledger in (original, candidate))
    usual, known = set().union(*ours), {each.name for picture in original.known_pictures for each in picture.simple}
    count = Counter(name for names in theirs for name in names - usual - known or names - usual)
    replaced = usual - set().union(*theirs) or any(each.has_gap for each in original.known_pictures)
    for name, changed in count.items():
        if changed > FEW * len(theirs):
            added = f"{name} changes {changed} of {len(theirs)} pictures, in the original none"
            yield UnseenWork(f"{added}; whether it replaces another transform cannot be seen") if replaced else added


def check_repeated(original: Ledger, candidate: Ledger) -> Iterator[str]:
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
            yield (
                f"{name} does not do what torchvision's {name} does: applied again with the same draw, {differing} of "
                f"{len(found)} pictures differ"
            )
    errors = [each.error for each in candidate.repeated if each.error is not None]
    count = len(candidate.repeated)
    if len(errors) > FEW * count and not any(each.error is not None for each in original.repeated):
        yield UnseenWork(f"{len(errors)} of {count} random transforms could not be applied again: {errors[0]}")


def check_effects(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each random transform changes the pictures as much as chance makes it do in the original."""
    ours, theirs = map(_effects, (original, candidate))
    for name in sorted(ours.keys() & theirs.keys()):
        usual, now = np.array(ours[name]), np.array(theirs[name])
        strata = Strata.of_all(len(usual), np.arange(len(usual) + len(now)))
        if strata.chance_of_figures(np.concatenate([usual, now])) < TOO_RARE:
            still, usual_still = (float((each < SAME_PICTURE).mean()) for each in (now, usual))
            yield (
                f"{name} does not change the pictures as in the original: {still:.0%} of them stay as they are, there "
                f"{usual_still:.0%}, and the mean change is {now.mean():.2f}, there {usual.mean():.2f}"
            )


def _effects(ledger: Ledger) -> dict[str, list[float]]:
    """Return by how much each random transform has changed each picture."""
    found: dict[str, list[float]] = defaultdict(list)
    links = (link for picture in ledger.known_pictures for hop in picture.way for link in hop.links)
    for transform, before, after in links:
        if transform and is_random(transform.name) and before.shape == after.shape:
            found[transform.name].append(float(distance(unit(before[None]), unit(after[None])[0])[0]))
    return found


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


def check_draws(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that no random state is used for two draws of the same process, or of the same epoch and rank."""
    steps = len(epochs(original)[0])

    def repeated(ledger: Ledger) -> tuple[int, int]:
        ends = [epoch[-1].t for epoch in epochs(ledger, steps)]
        draws = [(made, each.name, each.draw) for made in ledger.transforms for each in made.simple if each.draw]
        of_process = {(made.source[0], *draw) for made, *draw in draws}
        of_epoch = {(made.rank, bisect(ends, made.t), *draw) for made, *draw in draws}
        return len(draws) - min(len(of_process), len(of_epoch)), len(draws)

    (usual, _), (now, draws) = repeated(original), repeated(candidate)
    if not usual and now > 2 * FEW * draws:
        yield (
            f"{now} of {draws} random transforms start from a random state that was used before: each picture needs a "
            "draw of its own, in each worker"
        )


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
    """Return the share of later pictures that look exactly like an earlier picture with the same target."""
    known: defaultdict[Any, list[Array]] = defaultdict(list)
    for target, picture in _pictures_with_target(earlier):
        known[target].append(picture)
    same = [
        any(distance(np.stack(known[target]), picture) < SAME_PICTURE / 5) if known[target] else False
        for target, picture in _pictures_with_target(later)
        if picture.any()
    ]
    return mean(same) if same else 0.0


def _pictures_with_target(steps: Sequence[StepTaken]) -> Iterator[tuple[Any, Array]]:
    for forward in forwards_in(steps):
        yield from zip(forward.targets or (), unit(values_of(forward.pictures)), strict=False)


def largest_share_repeated(ledger: Ledger, steps: int) -> float:
    """Return the largest share of repeated pictures between two epochs of the same run."""
    cut = epochs(ledger, steps)
    pairs = [*pairwise(cut), *((cut[0], later) for later in cut[2:])]
    return max((share_repeated(a, b) for a, b in pairs if a[0].run_index == b[0].run_index), default=0.0)


PICTURE_CHECKS = (
    check_decoded,
    check_transforms,
    check_draws,
    check_repeated,
    check_effects,
    check_blank,
    check_scale,
    check_targets,
    check_freshness,
)


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


def dimensions(shape: Sequence[int]) -> str:
    """Return a shape as text, such as "3 x 64 x 64"."""
    return " x ".join(str(size) for size in shape)
