"""Whether a script does the same work as another: what it did is compared, never how it is written.

Each `check_...` looks at one thing and returns what is wrong with it, as sentences about the candidate. The original is
the measure: a thing that its ledger does not show either is not asked of the candidate.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from workshop.judge.epochs import epochs, forwards_in, largest_share_repeated, targets_in
from workshop.judge.ledger import SAME_PICTURE, Forward, Ledger, PictureOrigin, distance, is_random, unit
from workshop.probe.wire import PhotoRead, Recomputation, SimpleTransform

LOSS_TOLERANCE = 1e-3
"""The largest relative error of a loss. float32 in another order of operations makes 1e-6, bfloat16 1e-2."""

UPDATE_TOLERANCE = 0.1
"""The largest `update_error` of a recomputed step."""

FREE_SETTINGS = ("foreach", "fused", "capturable", "differentiable", "initial_lr")
"""The settings of an optimizer that say how it computes, not what."""

NO_LOSS = Recomputation(error="no loss function of torch.nn was seen")
"""The result for a script of which no step could be recorded."""


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
    """Return what the candidate does otherwise than the original; nothing if it does the same work."""
    if not candidate.steps or not candidate.forwards:
        return ["no training was seen: no model with parameters was called and stepped by an optimizer"]
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
            *check_transforms(original, candidate),
            *check_scale(original, candidate),
            *check_targets(original, candidate),
            *check_freshness(original, candidate),
            *check_order(original, candidate),
            *check_progress(original, candidate),
            *check_recomputed(evidence),
        ]
    return complaints


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
    """Check that the optimizer is of the same kind, with the same settings."""
    if not original.model or not candidate.model:
        return
    ours, theirs = original.model, candidate.model
    if ours.optimizer != theirs.optimizer:
        yield f"the optimizer is {theirs.optimizer}, the original's {ours.optimizer}"
        return
    for name in sorted(ours.settings.keys() & theirs.settings.keys() - set(FREE_SETTINGS)):
        if ours.settings[name] != theirs.settings[name]:
            yield f"the optimizer's {name} is {theirs.settings[name]}, the original's {ours.settings[name]}"


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
        yield "the targets were not seen: the loss must come from a loss function of torch.nn"
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
    if quick:
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


def check_transforms(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each random transform is applied to each picture, with its settings and with a draw of its own."""
    expected = {simple.name: simple for each in original.traced if each.origin for simple in each.origin.simple}
    if not expected:
        return
    known = [each.origin for each in candidate.traced if each.origin]
    for name, example in expected.items():
        if not is_random(example):
            continue
        uses = [simple for origin in known for simple in origin.simple if simple.name == name]
        with_it = sum(any(each.name == name for each in origin.simple) for origin in known)
        if with_it < 0.97 * len(candidate.traced):
            yield (
                f"{name} was at work on {with_it} of {len(candidate.traced)} pictures, in the original on all "
                "(the judge sees transforms of torchvision that are called as objects)"
            )
        else:
            yield from _check_settings(example, uses)
    shared = max((origin.shared_by for origin in known), default=1)
    if shared > 1:
        yield f"{shared} pictures share one draw of a random transform; the original draws for each"
    yield from _check_sizes(expected, known)


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
    """Check that the items come in another order in each epoch."""
    steps = len(epochs(original)[0])

    def changes(ledger: Ledger) -> list[bool]:
        """Whether the order changes from one epoch of a run to the next; a new run may well repeat an old one."""
        found = [(epoch[0].run_index, [f.targets for f in forwards_in(epoch)]) for epoch in epochs(ledger, steps)]
        return [a != b for (run, a), (next_run, b) in pairwise(found) if run == next_run]

    if any(changes(original)) and (theirs := changes(candidate)) and not any(theirs):
        yield "the items come in the same order every epoch: shuffle=True, or a sampler's set_epoch(), is missing"


def check_progress(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each step moves the parameters."""

    def still(ledger: Ledger) -> int:
        steps = [step for step in ledger.steps if step.parameter is not None]
        return sum(a.parameter == b.parameter for a, b in pairwise(steps) if a.run_index == b.run_index)

    if still(candidate) and not still(original):
        yield f"{still(candidate)} steps of the optimizer moved nothing"


def check_recomputed(evidence: Evidence) -> Iterator[str]:
    """Check that the original, from a step's own beginning, comes to the same loss and the same parameters."""
    for result in evidence.recomputed:
        if result.error is not None:
            yield f"a sampled step could not be computed over again: {result.error}"
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


def copied_ahead(ledger: Ledger, steps: int) -> tuple[int, int]:
    """Return how many batches were copied before the model began with the batch before them, and of how many."""
    ahead = batches = 0
    for epoch in epochs(ledger, steps):
        for present, following in pairwise(forwards_in(epoch)):
            picture = unit(following.values)[0]
            copied = (
                t
                for t, copy in ledger.copies
                if copy is not None and len(copy[0]) == len(picture) and distance(copy, picture)[0] < SAME_PICTURE
            )
            batches += 1
            ahead += any(t < present.t for t in copied)
    return ahead, batches


def _usual(forwards: Sequence[Forward]) -> Forward:
    """One of the largest batches."""
    return max(forwards, key=lambda forward: forward.shape[0])


def _by(shape: Sequence[int]) -> str:
    return " x ".join(str(size) for size in shape)
