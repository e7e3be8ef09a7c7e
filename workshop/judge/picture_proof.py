"""Whether the pictures that enter the model are made as the original makes them: read, decoded, augmented, in time."""

import math
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from workshop.judge.epochs import epochs, forwards_in, largest_share_repeated, targets_in
from workshop.judge.ledger import Ledger
from workshop.judge.origin import PictureOrigin
from workshop.judge.signatures import SAME_PICTURE, Array, distance, unit, values_of
from workshop.judge.verdict import Unseen
from workshop.probe.events import ForwardPass, PhotoRead, SimpleTransform, is_random
from workshop.probe.messages import Repetition

SAME_DECODED = 0.03
"""The largest distance of the signatures of decoded pictures. Honest decoders stay below 0.010. Interpolation by
the nearest neighbour makes 0.6, a greyscale picture 1.1, JPEG of quality 5 0.8, a JPEG draft 0.09, bicubic 0.06."""

FEW = 0.05
"""The share of steps, pictures or draws in which something may be otherwise by chance."""

SCALE_TOLERANCE = 0.05
"""The largest difference of slope or offset in `check_scale`, relative to the slope. Rounding to bytes makes 0.01."""

SAME_RESULT = 0.005
"""The largest difference of what a transform makes of a picture with the same draw; rounding to bytes makes 0.001."""


def check_reads(original: Ledger, candidate: Ledger, wasted_time_s: float | None) -> Iterator[str]:
    """Check that each photo was read at least once, and never faster than its storage is."""
    if not wasted_time_s:
        return
    batch = largest_batch(original.forwards).shape[0]
    slow = slow_reads(candidate, wasted_time_s, batch)
    items = sum(targets_in(epochs(original)[0]).values())
    used = {read for read in candidate.origins.read_for if read}
    quick = used - set(slow)
    slow_photos = {read.photo for read in slow}
    if quick and all(read.waited_otherwise for read in quick):
        yield Unseen(
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
            f"only {len(slow_photos)} of {items} photos were ever read from the slow storage: what the others "
            "come from was made before this run, or lies outside of the config's cache_dir"
        )


def slow_reads(ledger: Ledger, wasted_time_s: float, batch: int) -> list[PhotoRead]:
    """Return the reads of a photo that its thread had slept for; it may sleep for a whole batch at once."""
    saved_s: dict[tuple[int, int], float] = {}
    slow = []
    for read in ledger.reads:
        saved = min(saved_s.get(read.source, 0.0) + read.slept_s, batch * 1.1 * wasted_time_s)
        if saved >= 0.99 * wasted_time_s:  # a sleep is never shorter than asked for
            saved = max(0.0, saved - wasted_time_s)
            slow.append(read)
        saved_s[read.source] = saved
    return slow


def check_decoded(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the deterministic half of the preprocessing makes the same of each photo."""
    ours, theirs = ([each for each in _origins(ledger) if each.decoded is not None] for ledger in (original, candidate))
    if not ours or not theirs:
        return
    sizes = Counter(each.decoded_size for each in ours)
    first = next(each.name for each in reversed(theirs[0].simple) if is_random(each.name))
    others = [each.decoded_size for each in theirs if each.decoded_size not in sizes]
    if len(others) > FEW * len(theirs):
        usual = sizes.most_common(1)[0][0]
        sizes_now, sizes_usual = dimensions(others[0] or ()), dimensions(usual or ())
        yield f"the pictures that enter {first} are {sizes_now} pixels, the original's {sizes_usual}"
        return
    known = np.stack([each.decoded for each in ours if each.decoded is not None])
    nearest = np.array([distance(known, each.decoded).min() for each in theirs if each.decoded is not None])
    wrong = nearest[nearest > SAME_DECODED]
    if len(wrong) > 2 * FEW * len(nearest):
        yield (
            f"{len(wrong)} of {len(nearest)} pictures that enter {first} are not what the original makes of the "
            f"photos: their median distance is {np.median(wrong):.2f}, with honest decoders below 0.01"
        )


def check_transforms(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each random transform is applied to each picture, with its settings and with a draw of its own."""
    expected = {simple.name: simple for each in _origins(original) for simple in each.simple}
    if not expected:
        return
    known = _origins(candidate)
    not_seen = len(candidate.traced) - sum(not each.has_gap for each in known)
    for name, example in expected.items():
        if not is_random(name):
            continue
        uses = [simple for origin in known for simple in origin.simple if simple.name == name]
        with_it = sum(any(each.name == name for each in origin.simple) for origin in known)
        if with_it >= 0.97 * len(candidate.traced):
            yield from _check_settings(example, uses)
        elif with_it + not_seen < 0.97 * len(candidate.traced):
            yield f"{name} was at work on {with_it} of {len(candidate.traced)} pictures, in the original on all"
        else:
            yield Unseen(
                f"{name} was seen at work on {with_it} of {len(candidate.traced)} pictures, and what makes the others "
                "cannot be seen: use the transforms of torchvision, and call them as objects"
            )
            return
    yield from _check_no_more(original, candidate)
    shared = max((origin.shared_by for origin in known), default=1)
    if shared > 1:
        yield f"{shared} pictures share one draw of a random transform; the original draws for each"
    if not_seen > FEW * len(candidate.traced) and not any(each.has_gap for each in _origins(original)):
        yield Unseen(
            f"something that cannot be seen has changed {not_seen} of {len(candidate.traced)} pictures on their way: "
            "use the transforms of torchvision, and call them as objects"
        )


def check_repeated(repeated: Sequence[Repetition], own: Sequence[Repetition]) -> Iterator[str]:
    """Check that each random transform makes of a picture what torchvision's own makes of it with the same draw.

    Transforms that come out otherwise in the original itself are left out.
    """
    off = {each.name for each in own if each.difference > SAME_RESULT}
    by_name: dict[str, list[Repetition]] = {}
    for each in repeated:
        if each.error is None and each.name not in off:
            by_name.setdefault(each.name, []).append(each)
    for name, found in sorted(by_name.items()):
        others = [each for each in found if each.difference > SAME_RESULT]
        most = len(found) / 2 if any(each.threads for each in found) else 0  # threads share the random generator
        if len(others) > most:
            yield (
                f"{name} does not do what torchvision's {name} does: applied again with the same draw, "
                f"{len(others)} of {len(found)} pictures come out otherwise"
            )
    errors = [each.error for each in repeated if each.error is not None]
    if len(errors) > FEW * len(repeated) and not any(each.error is not None for each in own):
        yield Unseen(f"{len(errors)} of {len(repeated)} random transforms could not be applied again: {errors[0]}")


def check_blank(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that no more pictures than in the original are of one colour; these cannot be followed."""
    ours, theirs = original.blank, candidate.blank
    usual, count = (sum(forward.pictures.shape[0] for forward in ledger.forwards) for ledger in (original, candidate))
    deviation = math.sqrt((ours + 1) / usual / count)  # of the candidate's share, if it is the original's
    if theirs / count > ours / usual + max(2 * FEW, 5 * deviation):
        yield f"{theirs} of {count} pictures that enter the model show nothing, in the original {ours} of {usual}"


def check_draws(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that no state of the random generator serves for several draws: of a process, or in an epoch of a rank."""
    steps = len(epochs(original)[0])

    def repeated(ledger: Ledger) -> tuple[int, int]:
        ends = [epoch[-1].t for epoch in epochs(ledger, steps)]
        draws = [(made, each.name, each.draw) for made in ledger.transforms for each in made.simple if each.draw]
        of_process = {(made.source[0], *draw) for made, *draw in draws}
        of_epoch = {(made.rank, bisect(ends, made.t), *draw) for made, *draw in draws}
        return len(draws) - min(len(of_process), len(of_epoch)), len(draws)

    (ours, _), (theirs, count) = repeated(original), repeated(candidate)
    if not ours and theirs > 2 * FEW * count:
        yield (
            f"{theirs} of {count} random transforms begin where a random generator had been before: each picture "
            "needs a draw of its own, in each worker"
        )


def _origins(ledger: Ledger) -> list[PictureOrigin]:
    return [each.origin for each in ledger.traced if each.origin]


def _check_settings(ours: SimpleTransform, uses: list[SimpleTransform]) -> Iterator[str]:
    for name, setting in sorted(ours.settings.items()):
        others = {use.settings[name] for use in uses if use.settings.get(name, setting) != setting}
        if others:
            yield f"{ours.name} has {name}={min(others)}, in the original {setting}"


def _check_no_more(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that from the first random transform on no other transforms change the pictures than in the original.

    A transform in the place of another one, or of something that cannot be seen, may do the same.
    """
    ours, theirs = ([set(origin.changed_by) for origin in _origins(ledger)] for ledger in (original, candidate))
    usual, known = set().union(*ours), {each.name for origin in _origins(original) for each in origin.simple}
    count = Counter(name for names in theirs for name in names - usual - known or names - usual)
    added = {name: pictures for name, pictures in count.items() if pictures > FEW * len(theirs)}
    replaced = usual - set().union(*theirs) or any(each.has_gap for each in _origins(original))
    for name, pictures in added.items():
        says = f"{name} changes {pictures} of {len(theirs)} pictures, in the original none"
        yield Unseen(f"{says}; whether it does what another transform does there") if replaced else says


def check_scale(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the values that enter the model are scaled and shifted as the original's, that is, normalised."""
    ours, theirs = (_scales(ledger) for ledger in (original, candidate))
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
        yield (
            f"what enters the model is {slope:.2f} x {offset:+.2f} for a value x of channel {channel}, in the original "
            f"{usual[channel, 0]:.2f} x {usual[channel, 1]:+.2f}: is the normalisation another one?"
        )


def _scales(ledger: Ledger) -> list[Array]:
    return [each.scale for each in _origins(ledger) if each.scale is not None]


def _check_spread(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Where pictures cannot be followed: check mean and deviation of all values that enter the model."""
    ours, theirs = (
        np.concatenate([_channels(forward) for forward in forwards])
        for forwards in (original.forwards, candidate.forwards)
    )
    for channel in range(ours.shape[1]):
        a, b = ours[:, channel], theirs[:, channel]
        if abs(a.mean() - b.mean()) > 0.5 * a.std() or not 0.6 < b.std() / max(a.std(), 1e-9) < 1.6:
            yield (
                f"the values that enter the model have mean {b.mean():.2f} and deviation {b.std():.2f}, in the "
                f"original {a.mean():.2f} and {a.std():.2f}: is the normalisation missing?"
            )
            return


def _channels(forward: ForwardPass) -> Array:
    """Return the signatures of a batch, of shape (pictures, channels, values)."""
    values = values_of(forward.pictures)
    return values.reshape(len(values), forward.shape[1] if len(forward.shape) == 4 else 1, -1)


def check_targets(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each picture comes with its own target."""
    true = {each.origin.photo: each.target for each in original.traced if each.origin and each.origin.photo}
    wrong = [
        each.origin.photo
        for each in candidate.traced
        if each.origin and each.origin.photo in true and true[each.origin.photo] != each.target
    ]
    if wrong:
        yield f"{len(wrong)} pictures came with the target of another one, such as {wrong[0]}"


def check_freshness(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that a picture looks different in each epoch, as the augmentation makes it."""
    steps = len(epochs(original)[0])
    augments = any(each.origin and each.origin.draws for each in original.traced)
    seen_twice = len(epochs(original, steps)) > 1
    if any(len(each.targets or ()) != each.pictures.shape[0] for each in (*original.forwards, *candidate.forwards)):
        return  # pictures cannot be told from each other
    if largest_share_repeated(original, steps) > 0.1 or not (augments or seen_twice):
        return
    if (share := largest_share_repeated(candidate, steps)) > 0.1:
        yield (
            f"{share:.0%} of the pictures look exactly as in an epoch before: the augmentation is frozen; keep what is "
            "deterministic, and augment what comes out"
        )
        return
    uses = Counter(draw for each in candidate.traced if each.origin for draw in set(each.origin.draws))
    again = [name for (name, _), count in uses.items() if count > 1]
    if len(again) > 0.03 * len(candidate.traced):
        yield (
            f"one draw of {again[0]} serves for several epochs: what was augmented is kept; keep what is "
            "deterministic, and augment what comes out"
        )


def check_stock(original: Ledger, candidate: Ledger, raced_s: tuple[float, float]) -> Iterator[str]:
    """Check that what was used in a race was made in it, but for what is prefetched: an epoch at most."""
    items = sum(targets_in(epochs(original)[0]).values())

    def missing(ledger: Ledger) -> dict[str, int]:
        begin, end = raced_s
        used = sum(forward.shape[0] for forward in ledger.forwards if begin < forward.t < end)
        made: Counter[str] = Counter()
        for call in ledger.transforms:
            names = {each.name for each in call.simple if is_random(each.name)}
            made.update(dict.fromkeys(names, call.after.shape[0] * (begin < call.t < end)))
        return {name: used - count for name, count in made.items()}

    ours, theirs = missing(original), missing(candidate)
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name] <= items < theirs[name]:
            yield (
                f"{theirs[name]} of the pictures in the race had gone through {name} before it began: what is "
                "augmented for later epochs is work left out of the race"
            )
            return


def copied_ahead(ledger: Ledger, steps: int) -> tuple[int, int, int]:
    """Count the batches that were copied before the model began with the batch before them.

    Returns:
        How many were, how many were copied more than once, and of how many batches.
    """
    ahead = again = batches = 0
    copies = [(copy, unit(values_of(copy.picture))[0]) for copy in ledger.copies if copy.picture]
    for epoch in epochs(ledger, steps):
        for present, following in pairwise(forwards_in(epoch)):
            first = unit(values_of(following.pictures))[0]
            copied = [
                copy
                for copy, picture in copies
                if copy.t < following.t
                and picture.shape == first.shape
                and distance(picture[None], first)[0] < SAME_PICTURE
            ]
            batches += 1
            # The last copy before the model begins is the one that is used. What is there already is not copied again.
            ahead += min((copy.t for copy in copied if copy.memory == copied[-1].memory), default=math.inf) < present.t
            again += len({copy.memory for copy in copied}) > 1
    return ahead, again, batches


def largest_batch(forwards: Sequence[ForwardPass]) -> ForwardPass:
    """One of the largest batches."""
    return max(forwards, key=lambda forward: forward.shape[0])


def dimensions(shape: Sequence[int]) -> str:
    """Return a shape as text, such as "3 x 64 x 64"."""
    return " x ".join(str(size) for size in shape)
