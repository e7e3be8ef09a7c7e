"""Whether a script does the same work as another: what it did is compared, never how it is written.

Each `check_...` looks at one thing and returns what is wrong with it, as sentences about the candidate. The original is
the measure: a thing that its ledger does not show either is not asked of the candidate. What cannot be seen of the
candidate is no accusation: those sentences are of the class `Unseen`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, pairwise
from typing import Any

import numpy as np

from workshop.judge.epochs import epochs, forwards_in, targets_in
from workshop.judge.ledger import Ledger
from workshop.judge.picture_proof import (
    FEW,
    check_decoded,
    check_draws,
    check_effects,
    check_freshness,
    check_reads,
    check_scale,
    check_targets,
    check_transforms,
    dimensions,
    largest_batch,
)
from workshop.judge.verdict import Unseen
from workshop.probe.wire import Recomputation

LOSS_TOLERANCE = 1e-3
"""The largest relative error of a loss. float32 in another order of operations makes 1e-6, bfloat16 1e-2."""

UPDATE_TOLERANCE = 0.1
"""The largest `update_error` of a recomputed step."""

FREE_SETTINGS = ("foreach", "fused", "capturable", "differentiable", "initial_lr")
"""The settings of an optimizer that say how it computes, not what."""

BUFFER_TOLERANCE = 0.01
"""The largest `buffer_error` of a recomputed step."""

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
            *check_reads(original, candidate, evidence.wasted_time_s),
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
    for group in ours:
        if all(list(_other_settings(each.settings, group.settings)) for each in theirs):
            name, _, usual = next(_other_settings(theirs[0].settings, group.settings))
            yield f"the original's optimizer has other settings for {group.tensors} of its tensors: {name} {usual}"
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
    ours, theirs = (largest_batch(ledger.forwards) for ledger in (original, candidate))
    if theirs.shape[1:] != ours.shape[1:]:
        yield f"the model's input is {dimensions(theirs.shape[1:])}, the original's {dimensions(ours.shape[1:])}"
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
        usual = largest_batch(original.forwards).shape[0]
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
