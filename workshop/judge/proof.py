"""Whether a script does the same work as another: what it did is compared, never how it is written.

Each `check_...` looks at one thing and returns what is wrong with it, as sentences about the candidate. The original is
the measure: a thing that its ledger does not show either is not asked of the candidate. What cannot be seen of the
candidate is no accusation: those sentences are of the class `Unseen`.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, pairwise
from typing import Any

import numpy as np

from workshop.judge.epochs import epochs, forwards_in, largest_share_repeated, targets_in
from workshop.judge.ledger import SAME_PICTURE, Forward, Ledger, PictureOrigin, distance, unit
from workshop.judge.verdict import Outcome, Verdict
from workshop.probe.wire import PhotoRead, Recomputation, SimpleTransform, is_random

LOSS_TOLERANCE = 1e-3
"""The largest relative error of a loss. float32 in another order of operations makes 1e-6, bfloat16 1e-2."""

UPDATE_TOLERANCE = 0.1
"""The largest `update_error` of a recomputed step."""

FREE_SETTINGS = ("foreach", "fused", "capturable", "differentiable", "initial_lr")
"""The settings of an optimizer that say how it computes, not what."""

SAME_DECODED = 0.03
"""The largest median distance of the signatures of decoded pictures. Honest decoders stay below 0.010. Interpolation by
the nearest neighbour makes 0.6, a greyscale picture 1.1, JPEG of quality 5 0.8, a JPEG draft 0.09, bicubic 0.06."""

BUFFER_TOLERANCE = 0.01
"""The largest `buffer_error` of a recomputed step."""

FEW = 0.05
"""The share of steps, pictures or draws in which something may be otherwise by chance."""

KOLMOGOROV = 2.4
"""Two samples of n and m values differ if the largest distance of their distributions is more than this times the
square root of (n + m) / (n m): by chance, that happens twice in 100,000 times (2 exp(-2 x 2.4^2))."""

NO_LOSS = Recomputation(error="no loss function of torch.nn was seen")
"""The result for a script of which no step could be recorded."""


class Unseen(str):
    """A sentence that says what cannot be seen, and what would make it visible."""


@dataclass(frozen=True)
class Evidence:
    """What is known of a script's work beside its ledger."""

    wasted_time_s: float | None = None
    """The seconds that each read of a photo must have slept; None where there is no such rule."""
    replaced_clocks: Sequence[str] = ()
    """The functions of `time` that the script has replaced."""
    recomputed: Sequence[Recomputation] = field(default_factory=list)
    """Each sampled step, recomputed by the original."""


def differences(original: Ledger, candidate: Ledger, evidence: Evidence) -> list[str]:
    """Return what the candidate does otherwise than the original; nothing if it does the same work.

    Sentences of the class `Unseen` come alone, or last.
    """
    if not candidate.steps or not candidate.forwards:
        return [Unseen("no training was seen: no model with parameters was called and stepped by an optimizer")]
    complaints = [
        *check_clocks(evidence),
        *check_model(original, candidate),
        *check_optimizer(original, candidate),
        *check_passes(original, candidate),
        *check_batches(original, candidate),
        *check_items(original, candidate),
    ]
    if not complaints:  # what follows would only repeat these
        complaints = [
            *check_reads(original, candidate, evidence),
            *check_decoded(original, candidate),
            *check_transforms(original, candidate),
            *check_effects(original, candidate),
            *check_draws(original, candidate),
            *check_scale(original, candidate),
            *check_targets(original, candidate),
            *check_freshness(original, candidate),
            *check_order(original, candidate),
            *check_progress(original, candidate),
            *check_recomputed(evidence),
        ]
    return sorted(complaints, key=lambda each: isinstance(each, Unseen))


def other_work(subject: str, complaints: Sequence[str], next: str = "") -> Verdict | None:
    """Return the verdict on what `differences` has found; None if that is nothing.

    What cannot be seen is no accusation: the verdict is then undecided.
    """
    refused = tuple(complaint for complaint in complaints if not isinstance(complaint, Unseen))
    if refused:
        return Verdict(subject, Outcome.OTHER_WORK, refused, next=next)
    reasons = tuple(f"the judge cannot see whether it is the same work: {complaint}" for complaint in complaints)
    return Verdict(subject, Outcome.UNDECIDED, reasons) if reasons else None


def check_clocks(evidence: Evidence) -> Iterator[str]:
    """Check that the script has not replaced a clock."""
    if evidence.replaced_clocks:
        names = ", ".join(f"time.{name}" for name in evidence.replaced_clocks)
        yield f"the script replaces {names}; the judge goes by its own clock, so put it back"


def check_model(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the model has the same parameters."""
    if original.model and candidate.model:
        ours, theirs = (Counter(map(tuple, each.model.parameters)) for each in (original, candidate) if each.model)
        if ours != theirs:
            sizes = [sum(int(np.prod(shape)) * n for shape, n in each.items()) for each in (theirs, ours)]
            yield f"the model is another one: {sizes[0]:,} parameters, the original has {sizes[1]:,}"


def check_optimizer(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the optimizers are of the same kind, with the same settings for all parameters."""
    if not original.model or not candidate.model:
        return
    ours, theirs = original.model.groups, candidate.model.groups
    if (kinds := {group.optimizer for group in theirs}) != (expected := {group.optimizer for group in ours}):
        yield f"the optimizer is {' and '.join(sorted(kinds))}, the original's {' and '.join(sorted(expected))}"
        return
    for group in theirs:
        others = [list(_other_settings(group.settings, each.settings)) for each in ours]
        if all(others):
            name, setting, usual = min(others, key=len)[0]
            where = f" for {group.tensors} of its tensors" if len(theirs) > 1 else ""
            yield f"the optimizer's {name} is {setting}{where}, the original's {usual}"
            return


def _other_settings(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in sorted(ours.keys() & theirs.keys() - set(FREE_SETTINGS)):
        if ours[name] != theirs[name]:
            yield name, theirs[name], ours[name]


def check_passes(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that there are as many forward and backward passes to a step of the optimizer."""

    def counts(ledger: Ledger) -> tuple[int, int, int]:
        steps = sum(step.parameter is not None for step in ledger.steps)
        return len(ledger.forwards), sum(step.backwards for step in ledger.steps), steps

    (our_forwards, our_backwards, our_steps), (forwards, backwards, steps) = counts(original), counts(candidate)
    if abs(steps / forwards - our_steps / our_forwards) > 0.01:
        ours = f"{our_steps} times for {our_forwards}"
        yield f"the optimizer steps {steps} times for {forwards} batches, in the original {ours}"
    if abs(backwards / forwards - our_backwards / our_forwards) > 0.01:
        ours = f"{our_backwards} times for {our_forwards}"
        yield f"backward runs {backwards} times for {forwards} batches, in the original {ours}"


def check_batches(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that what enters the model has the same shape and type."""
    ours, theirs = (_usual(ledger.forwards) for ledger in (original, candidate))
    if theirs.shape[1:] != ours.shape[1:]:
        yield f"the model's input is {_by(theirs.shape[1:])}, the original's {_by(ours.shape[1:])}"
    if theirs.shape[0] != ours.shape[0]:
        yield f"batches have {theirs.shape[0]} items, the original's {ours.shape[0]}"
    if theirs.dtype != ours.dtype:
        yield f"the model's input is {theirs.dtype}, the original's {ours.dtype}"
    if theirs.autocast and not ours.autocast:
        yield "the model runs in lower precision (autocast), the original in full"


def check_items(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that every item comes once in an epoch."""
    if any(forward.targets is None for forward in original.forwards):
        return
    if any(forward.targets is None for forward in candidate.forwards):
        yield Unseen("the targets cannot be seen: take the loss from a loss function of torch.nn")
        return
    steps = len(epochs(original)[0])
    everything = targets_in(epochs(original)[0])
    if any(targets_in(epoch) != everything for epoch in epochs(original)):
        return  # what is compared is a part of an epoch
    if all(targets_in(epoch) == everything for epoch in epochs(candidate, steps)):
        return
    # Something is wrong. An epoch is then what the script takes for one: from one iter(loader) to the next.
    wrong = [epoch for epoch in epochs(candidate) if targets_in(epoch) != everything]
    if not wrong:
        return  # the epochs are whole; another check says what is wrong with their steps
    epoch = wrong[0]
    seen, all_of = targets_in(epoch), sum(everything.values())
    total, missing, surplus = sum(seen.values()), everything - seen, seen - everything
    if total < all_of:
        usual = _usual(original.forwards).shape[0]
        last = all_of % usual or usual
        how = "the last batch is dropped" if all_of - total == last else "batches are skipped"
        yield f"an epoch trains on {total} of {all_of} items: {how}"
    elif total > all_of:
        yield f"an epoch trains on {total} items, the original on {all_of}"
    else:
        yield (
            f"of an epoch's {all_of} items {sum(missing.values())} do not come, and {sum(surplus.values())} come again "
            "or with another target: each must come once, with its own target"
        )


def check_reads(original: Ledger, candidate: Ledger, evidence: Evidence) -> Iterator[str]:
    """Check that each photo was read at least once, and never faster than its storage is."""
    if not evidence.wasted_time_s:
        return
    batch = _usual(original.forwards).shape[0]
    slow = slow_reads(candidate, evidence.wasted_time_s, batch)
    items = sum(targets_in(epochs(original)[0]).values())
    used = {read for read in candidate.read_for if read}
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
            f"{evidence.wasted_time_s:g} s, in the thread that reads"
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
        yield f"the pictures that enter {first} are {_by(others[0] or ())} pixels, the original's {_by(usual or ())}"
        return
    known = np.stack([each.decoded for each in ours if each.decoded is not None])
    nearest = [float(distance(known, each.decoded).min()) for each in theirs if each.decoded is not None]
    if (middle := float(np.median(nearest))) > SAME_DECODED:
        yield (
            f"the pictures that enter {first} are not what the original makes of the photos: the median distance is "
            f"{middle:.2f}, with honest decoders below 0.01"
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
    shared = max((origin.shared_by for origin in known), default=1)
    if shared > 1:
        yield f"{shared} pictures share one draw of a random transform; the original draws for each"
    yield from _check_sizes(expected, known)
    if not_seen > FEW * len(candidate.traced) and not any(each.has_gap for each in _origins(original)):
        yield Unseen(
            f"something that cannot be seen has changed {not_seen} of {len(candidate.traced)} pictures on their way: "
            "use the transforms of torchvision, and call them as objects"
        )


def check_effects(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each random transform changes pictures as far as in the original, and as often."""
    ours, theirs = (_effects(ledger) for ledger in (original, candidate))
    for name in sorted(ours.keys() & theirs.keys()):
        one, other = np.array(ours[name]), np.array(theirs[name])
        values = np.concatenate([one, other])
        shares = [np.searchsorted(np.sort(each), values, side="right") / len(each) for each in (one, other)]
        limit = KOLMOGOROV * np.sqrt(len(values) / (len(one) * len(other)))
        if np.abs(shares[0] - shares[1]).max() > limit:
            usual, now = (float(np.mean(each < SAME_PICTURE)) for each in (one, other))
            yield (
                f"{name} does not change pictures as in the original: it leaves {now:.0%} of them as they are, there "
                f"{usual:.0%}"
            )


def _effects(ledger: Ledger) -> dict[str, list[float]]:
    """How far each random transform has moved the pictures."""
    found: dict[str, list[float]] = {}
    for made in ledger.transforms:
        for each in made.simple:
            if each.moved and is_random(each.name):
                found.setdefault(each.name, []).extend(each.moved)
    return found


def check_draws(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that no state of the random generator serves for several draws of a process."""

    def repeated(ledger: Ledger) -> tuple[int, int]:
        draws = [
            (made.source[0], each.name, each.draw) for made in ledger.transforms for each in made.simple if each.draw
        ]
        return len(draws) - len(set(draws)), len(draws)

    (ours, _), (theirs, count) = repeated(original), repeated(candidate)
    if not ours and theirs > 2 * FEW * count:
        yield (
            f"{theirs} of {count} random transforms begin where the random generator had been before: each picture "
            "needs a draw of its own"
        )


def _origins(ledger: Ledger) -> list[PictureOrigin]:
    return [each.origin for each in ledger.traced if each.origin]


def _check_settings(ours: SimpleTransform, uses: list[SimpleTransform]) -> Iterator[str]:
    for name, setting in sorted(ours.settings.items()):
        others = {use.settings[name] for use in uses if use.settings.get(name, setting) != setting}
        if others:
            yield f"{ours.name} has {name}={min(others)}, in the original {setting}"


def _check_sizes(expected: dict[str, SimpleTransform], origins_: list[PictureOrigin]) -> Iterator[str]:
    """Check that no picture becomes smaller on its way than in the original, and no crop gets a smaller one to crop."""
    smallest = min(min(each.after) for each in expected.values())
    crops = {name: min(each.before) for name, each in expected.items() if "Crop" in name}
    for origin in origins_:
        for each in origin.simple:
            if min(each.after) < smallest:
                yield f"{each.name} makes a picture {_by(each.after)} pixels, smaller than any in the original"
                return
            if min(each.before) < crops.get(each.name, 0):
                yield f"{each.name} gets pictures of {_by(each.before)} pixels, in the original of {crops[each.name]}"
                return


def check_scale(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the values that enter the model are spread as the original's, that is, normalised."""
    ours, theirs = (
        np.concatenate([f.values.reshape(len(f.values), f.shape[1] if len(f.shape) == 4 else 1, -1) for f in fs])
        for fs in (original.forwards, candidate.forwards)
    )
    for channel in range(ours.shape[1]):
        a, b = ours[:, channel], theirs[:, channel]
        if abs(a.mean() - b.mean()) > 0.5 * a.std() or not 0.6 < b.std() / max(a.std(), 1e-9) < 1.6:
            yield (
                f"the values that enter the model have mean {b.mean():.2f} and deviation {b.std():.2f}, in the "
                f"original {a.mean():.2f} and {a.std():.2f}: is the normalisation missing?"
            )
            return


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


def check_order(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the items come in another order, and in other company, in each epoch."""
    steps = len(epochs(original)[0])
    ours, theirs = (list(_orders(ledger, steps)) for ledger in (original, candidate))
    if not ours or not theirs:
        return
    if any(a != b for a, b in ours) and all(a == b for a, b in theirs):
        yield "the items come in the same order every epoch: shuffle=True, or a sampler's set_epoch(), is missing"
        return
    if _share_together(ours) < 0.5 < (share := _share_together(theirs)):
        yield f"{share:.0%} of the items that share a batch shared one in the epoch before: shuffle items, not batches"


def _orders(ledger: Ledger, steps: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """The targets of each batch, in pairs of epochs that follow each other; a new run may well repeat an old one."""
    found = [(epoch[0].run_index, [f.targets for f in forwards_in(epoch)]) for epoch in epochs(ledger, steps)]
    return ((a, b) for (run, a), (next_run, b) in pairwise(found) if run == next_run)


def _share_together(orders: list[tuple[list[Any], list[Any]]]) -> float:
    """The share of pairs in a batch that were a pair in the epoch before; 0 if items have no targets of their own."""
    pairs = both = 0
    for two_epochs in orders:
        batches = [[batch or () for batch in epoch] for epoch in two_epochs]
        if any(count > 1 for epoch in batches for count in Counter(chain(*epoch)).values()):
            return 0.0
        before, after = ({frozenset(pair) for batch in epoch for pair in combinations(batch, 2)} for epoch in batches)
        pairs, both = pairs + len(after), both + len(before & after)
    return both / pairs if pairs else 0.0


def check_stock(original: Ledger, candidate: Ledger, raced_s: tuple[float, float]) -> Iterator[str]:
    """Check that what was used in a race was made in it, but for what is prefetched: an epoch at most."""
    items = sum(targets_in(epochs(original)[0]).values())

    def missing(ledger: Ledger) -> dict[str, int]:
        begin, end = raced_s
        used = sum(forward.shape[0] for forward in ledger.forwards if begin < forward.t < end)
        made: Counter[str] = Counter()
        for call in ledger.transforms:
            names = {each.name for each in call.simple if is_random(each.name)}
            made.update(dict.fromkeys(names, len(call.after) * (begin < call.t < end)))
        return {name: used - count for name, count in made.items()}

    ours, theirs = missing(original), missing(candidate)
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name] <= items < theirs[name]:
            yield (
                f"{theirs[name]} of the pictures in the race had gone through {name} before it began: what is "
                "augmented for later epochs is work left out of the race"
            )
            return


def check_progress(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each step moves all the parameters that it moves in the original, and that nothing else moves them."""
    steps = [step for step in candidate.steps if step.parameter is not None]
    idle = frozenset().union(*(step.still for step in original.steps))
    still = [step.still - idle for step in steps if step.still - idle]
    if len(still) > FEW * len(steps):
        tensors = f"{len(still[0])} of the model's {len(candidate.model.parameters) if candidate.model else 0} tensors"
        yield f"{len(still)} of {len(steps)} optimizer steps moved nothing in {tensors}"
    moved = frozenset().union(*(step.touched for step in original.steps))
    touched = [step.touched - moved for step in steps if step.touched - moved]
    if len(touched) > FEW * len(steps):
        yield (
            f"between {len(touched)} of {len(steps)} optimizer steps, something else has changed the model's "
            f"parameters ({len(touched[0])} tensors at a time)"
        )


def check_recomputed(evidence: Evidence) -> Iterator[str]:
    """Check that the original, from a step's own beginning, comes to the same loss and the same parameters."""
    for result in evidence.recomputed:
        if result.error is not None:
            yield Unseen(f"a sampled step could not be computed over again: {result.error}")
            return
        loss, recorded = result.loss, result.recorded_loss
        if abs(recorded - loss) > LOSS_TOLERANCE * abs(loss):
            yield f"the loss of a sampled step is {recorded:.4f}; computed over again from the same batch, {loss:.4f}"
            return
        if result.update_error > UPDATE_TOLERANCE:
            yield (
                f"a sampled step moved the parameters by something else than the gradient of its batch: "
                f"{result.update_error:.0%} of the change is not accounted for"
            )
            return
        if result.buffer_error > BUFFER_TOLERANCE:
            yield "a sampled step left other values in the model's buffers, such as the running means of batch norm"
            return


def copied_ahead(ledger: Ledger, steps: int) -> tuple[int, int]:
    """Return how many batches were copied before the model began with the batch before them, and of how many."""
    ahead = batches = 0
    for epoch in epochs(ledger, steps):
        for present, following in pairwise(forwards_in(epoch)):
            picture = unit(following.values)[0]
            copied = [
                t
                for t, copy in ledger.copies
                if copy is not None and len(copy[0]) == len(picture) and distance(copy, picture)[0] < SAME_PICTURE
            ]
            batches += 1
            # The last copy before the model begins is the one that is used.
            ahead += max((t for t in copied if t < following.t), default=math.inf) < present.t
    return ahead, batches


def _usual(forwards: Sequence[Forward]) -> Forward:
    """One of the largest batches."""
    return max(forwards, key=lambda forward: forward.shape[0])


def _by(shape: Sequence[int]) -> str:
    return " x ".join(str(size) for size in shape)
