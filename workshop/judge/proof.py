"""Whether a script does the same work as another: what it did is compared, never how it is written.

Each `check_...` looks at one thing and returns what is wrong with it, as sentences about the candidate. The original is
the measure: a thing that its ledger does not show either is not asked of the candidate. What cannot be seen of the
candidate is no accusation: those sentences are of the class `Unseen`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import mean

import numpy as np

from workshop.judge.epochs import epochs, forwards_in, targets_in
from workshop.judge.ledger import Ledger
from workshop.judge.optimizer_proof import check_optimizer, check_other_optimizers
from workshop.judge.order_proof import check_order
from workshop.judge.picture_proof import (
    FEW,
    check_blank,
    check_decoded,
    check_draws,
    check_freshness,
    check_reads,
    check_repeated,
    check_scale,
    check_targets,
    check_transforms,
    dimensions,
    largest_batch,
)
from workshop.judge.verdict import Unseen
from workshop.probe.events import StepTaken
from workshop.probe.messages import Recomputation, Repetition

MIN_SIZE = 0.9
"""Inputs that differ in size may be so much smaller on the average than those of the original."""

LOSS_TOLERANCE = 1e-3
"""The largest relative error of a loss. float32 in another order of operations makes 1e-6, bfloat16 1e-2."""

GRADIENT_TOLERANCE = 0.1
"""The largest `gradient_error` of a recomputed step."""

ROUNDING = 20.0
"""Gradients may differ by this times the noise of rounding. On ResNet-18, another order of operations, another memory
layout or a compiler makes 3 of it; bfloat16 makes 290 where it is used for one layer alone, and 900 for gradients. On
CUDA, where convolutions may round to TensorFloat-32, the noise is that of its 10 bits, and bfloat16 is within it."""

STEP_TOLERANCE = 1e-2
"""The largest `step_error` of a recomputed step."""

STATE_TOLERANCE = 1e-4
"""The largest `state_error` of a recomputed step; bfloat16 makes 2e-3."""

BUFFER_TOLERANCE = 1e-3
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
    own: Sequence[Recomputation] = field(default_factory=list)
    """Steps of the original itself, recomputed by it; none if they are known to come out the same."""
    repeated: Sequence[Repetition] = field(default_factory=list)
    """Some random transforms, applied again by the original."""
    own_repeated: Sequence[Repetition] = field(default_factory=list)
    """The same for some of the original itself."""
    items: int = 0
    """The number of items that each epoch of the original has; 0 where that is not known."""


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
        *check_other_optimizers(original, candidate),
        *check_passes(original, candidate),
        *check_batches(original, candidate),
        *check_items(original, candidate, evidence.items),
    ]
    if not complaints:  # what follows would only repeat these
        complaints = [
            *check_reads(original, candidate, evidence.wasted_time_s),
            *check_decoded(original, candidate),
            *check_transforms(original, candidate),
            *check_draws(original, candidate),
            *check_repeated(evidence.repeated, evidence.own_repeated),
            *check_blank(original, candidate),
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
        ours, theirs = (Counter(each.model.parameters) for each in (original, candidate) if each.model)
        if ours != theirs:
            sizes = [sum(int(np.prod(shape)) * n for shape, n in each.items()) for each in (theirs, ours)]
            if any(Counter(each.shapes) == ours for each in candidate.others):
                yield Unseen("the model that is called first is not the one that the original calls first")
                return
            yield f"the model is another one: {sizes[0]:,} parameters, the original has {sizes[1]:,}"


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
    if len({forward.shape[1:] for forward in original.forwards}) > 1:
        yield from _check_sizes(original, candidate)
    elif theirs.shape[1:] != ours.shape[1:]:
        yield f"the model's input is {dimensions(theirs.shape[1:])}, the original's {dimensions(ours.shape[1:])}"
    if theirs.shape[0] != ours.shape[0]:
        yield f"batches have {theirs.shape[0]} items, the original's {ours.shape[0]}"
    if theirs.dtype != ours.dtype:
        yield f"the model's input is {theirs.dtype}, the original's {ours.dtype}"
    if theirs.autocast and not ours.autocast:
        yield "the model runs in lower precision (autocast), the original in full"


def _check_sizes(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Where inputs differ in size, as padded sentences do: check that they are not smaller on the average."""
    usual, size = (mean(math.prod(forward.shape[1:]) for forward in each.forwards) for each in (original, candidate))
    if size < MIN_SIZE * usual:
        yield f"the model's inputs have {size:.0f} values on the average, the original's {usual:.0f}"


def check_items(original: Ledger, candidate: Ledger, items: int) -> Iterator[str]:
    """Check that every item comes once in an epoch, given their number, if it is known."""
    if any(forward.targets is None for forward in original.forwards):
        yield from _check_totals(original, candidate)
        return
    if any(forward.targets is None for forward in candidate.forwards):
        yield Unseen("the targets cannot be seen: take the loss from a loss function of torch.nn")
        return
    steps = len(epochs(original)[0])
    everything = targets_in(epochs(original)[0])
    is_whole = len(original.loader_starts) > 1 or sum(everything.values()) == items
    if original.drops_items or not is_whole or any(targets_in(epoch) != everything for epoch in epochs(original)):
        yield from _check_totals(original, candidate)
        return  # what is compared is a part of an epoch, or the items are drawn, or left out, by chance
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


def _check_totals(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Where items cannot be told from each other: check that as many come from one `iter(loader)` to the next."""
    if min(len(original.loader_starts), len(candidate.loader_starts)) < 2:
        return
    ours, theirs = (
        {sum(forward.shape[0] for forward in forwards_in(epoch)) for epoch in epochs(ledger)}
        for ledger in (original, candidate)
    )
    if len(ours) == 1 and not theirs & ours:
        yield f"an epoch trains on {min(theirs)} items, the original on {min(ours)}"


def check_progress(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each step moves all the parameters that it moves in the original, and that nothing else moves them."""
    tensors = len(candidate.model.parameters) if candidate.model else 0
    still, usual = (_shares(ledger, lambda step: step.still, tensors) for ledger in (candidate, original))
    idle = [number for number in still if still[number] > usual.get(number, 0.0) + FEW]
    if idle:
        share = max(still[number] for number in idle)
        yield f"{share:.0%} of the optimizer steps moved nothing in {len(idle)} of the model's {tensors} tensors"
    touched, usual = (_shares(ledger, lambda step: step.touched, None) for ledger in (candidate, original))
    others = {n: share for n, share in touched.items() if share > (2 * usual[n] + FEW if n in usual else 0.0)}
    if others:
        what = "the model's parameters" if min(others) < tensors else "the optimizer's state"
        yield (
            f"between optimizer steps something else has changed {what}: {len(others)} of its tensors, after "
            f"{max(others.values()):.0%} of the steps"
        )


def _shares(ledger: Ledger, of: Callable[[StepTaken], frozenset[int]], tensors: int | None) -> dict[int, float]:
    """For each of the first tensors, the share of the steps that a set of tensors has it in."""
    steps = [step for step in ledger.steps if step.parameter is not None]
    count = Counter(number for step in steps for number in of(step) if tensors is None or number < tensors)
    return {number: times / len(steps) for number, times in count.items()}


def check_recomputed(evidence: Evidence) -> Iterator[str]:
    """Check that the original, from a step's own beginning, comes to the same loss, gradients, parameters and state.

    What does not come out the same of the original's own steps is not asked of the candidate.
    """
    left_out = not_reproducible(evidence.own)
    for result in evidence.recomputed:
        if result.error is not None:
            yield Unseen(f"a sampled step could not be computed over again: {result.error}")
            return
        if wrong := [sentence for what, sentence in _wrong(result) if what not in left_out]:
            yield wrong[0]
            return
    if "gradients" not in left_out:
        yield from _check_precision([each.gradient_errors for each in evidence.recomputed if each.gradient_errors])


def not_reproducible(own: Sequence[Recomputation]) -> list[str]:
    """Return what does not come out the same when the original's own steps are recomputed: "loss", "gradients", ..."""
    if any(each.error is not None for each in own):
        return ["steps themselves"]
    return sorted({what for each in own for what, _ in _wrong(each)})


def _wrong(result: Recomputation) -> Iterator[tuple[str, str]]:
    """What is wrong with a step, and a sentence that says so."""
    loss, recorded = result.loss, result.recorded_loss
    if abs(recorded - loss) > LOSS_TOLERANCE * abs(loss):
        again = "computed over again from the same batch"
        yield "loss", f"the loss of a sampled step is {recorded:.4f}; {again}, {loss:.4f}"
    if result.gradient_error > GRADIENT_TOLERANCE:
        yield (
            "gradients",
            "a sampled step moved the parameters by something else than the gradient of its batch: "
            f"{result.gradient_error:.0%} of the gradient is not accounted for",
        )
    if result.step_error > STEP_TOLERANCE:
        yield (
            "change of the parameters",
            "in a sampled step, the optimizer did not make of its gradients what the original's would: "
            f"{result.step_error:.0%} of the change of a tensor is not accounted for",
        )
    if result.state_error > STATE_TOLERANCE:
        yield (
            "optimizer's state",
            "after a sampled step the optimizer's state is not what the original's would be: a tensor is off by "
            f"{result.state_error:.1g} of its length",
        )
    if result.buffer_error > BUFFER_TOLERANCE:
        buffers = "a sampled step left other values in the model's buffers, such as the running means of batch norm"
        yield "model's buffers", buffers


def _check_precision(errors: Sequence[Sequence[float]]) -> Iterator[str]:
    """Check that gradients differ by no more than rounding does, given the errors of each tensor in some steps.

    A value that is rounded to the other side of a kink, as that of ReLU, makes gradients jump: in one step, of the
    layers before it. So two steps must be off in nearly all tensors; or a tensor in each step, and in three at least.
    """
    everywhere = [float(np.quantile(of_step, 0.1)) for of_step in errors]
    off = sorted(everywhere)[-2:]
    in_all_steps = np.min(errors, axis=0) if len(errors) >= 3 else np.zeros(1)
    if len(off) == 2 and off[0] > ROUNDING:
        where, times = "nearly all tensors", off[0]
    elif in_all_steps.max() > ROUNDING:
        where, times = f"{(in_all_steps > ROUNDING).sum()} tensors", float(in_all_steps.max())
    else:
        return
    yield (
        f"the gradients of {where} are off by {times:.0f} times the noise of rounding, and another order of "
        f"operations makes 3: something is computed in lower precision"
    )
