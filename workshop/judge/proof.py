"""Whether a script does the same work as another: what it did is compared, never how it is written.

Each `check_...` looks at one thing and returns what is wrong with it, as sentences about the candidate. The original is
the measure: a thing that its ledger does not show either is not asked of the candidate. What cannot be seen of the
candidate is no accusation: those sentences are of the class `Unseen`.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean

import numpy as np

from workshop.judge import sentences
from workshop.judge.ledger import Ledger
from workshop.judge.ledger_epochs import epochs, forwards_in, targets_in
from workshop.judge.optimizer_proof import check_optimizer, check_other_optimizers
from workshop.judge.order_proof import check_order
from workshop.judge.picture_proof import FEW, PICTURE_CHECKS, check_reads, dimensions
from workshop.judge.step_proof import check_recomputed
from workshop.judge.verdict import Unseen

MIN_SIZE = 0.9
"""Inputs that differ in size may be so much smaller on the average than those of the original."""

SAME_ON_RANKS = 1e-5
"""The largest difference between parameters on two ranks, relative to the largest of them."""


def differences(original: Ledger, candidate: Ledger, wasted_time_s: float | None = None, items: int = 0) -> list[str]:
    """Return what the candidate does otherwise than the original; nothing if it does the same work.

    Sentences of the class `Unseen` come alone, or last.

    Args:
        original: what the original did.
        candidate: what the script did that is judged.
        wasted_time_s: the seconds that each read of a photo must have slept; None where there is no such rule.
        items: the number of items in each epoch of the original; 0 where that is not known.
    """
    if complaints := [*check_parameters(candidate.ranks), *check_steps(candidate.ranks)]:
        return complaints
    if any(result.apart > SAME_ON_RANKS for result in candidate.recomputed):
        return [sentences.RANKS_APART_AT_SAMPLE]
    if not candidate.forwards:
        return [Unseen(sentences.NO_TRAINING)]
    complaints = [
        *check_clocks(candidate),
        *check_model(original, candidate),
        *check_optimizer(original, candidate),
        *check_other_optimizers(original, candidate),
        *check_passes(original, candidate),
        *check_batches(original, candidate),
        *check_items(original, candidate, items),
    ]
    if not complaints:  # what follows would only repeat these
        complaints = [*check_reads(original, candidate, wasted_time_s)]
        for check in (*PICTURE_CHECKS, check_order, check_progress, check_recomputed):
            complaints += check(original, candidate)
    return sorted(complaints, key=lambda each: isinstance(each, Unseen))


def check_clocks(candidate: Ledger) -> Iterator[str]:
    """Check that the script has not replaced a clock."""
    if candidate.replaced_clocks:
        yield sentences.CLOCKS.format(names=", ".join(f"time.{name}" for name in candidate.replaced_clocks))


def check_model(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the model has the same parameters."""
    if not original.model or not candidate.model:
        return
    ours, theirs = (Counter(model.parameters) for model in (original.model, candidate.model))
    if ours == theirs:
        return
    if any(Counter(each.shapes) == ours for each in candidate.others):
        yield Unseen(sentences.OTHER_FIRST)
    else:
        now, usual = (sum(math.prod(shape) * n for shape, n in each.items()) for each in (theirs, ours))
        yield sentences.OTHER_MODEL.format(now=now, usual=usual)


def check_passes(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that there are as many forward and backward passes to a step of the optimizer."""
    batches, usual_batches = len(candidate.forwards), len(original.forwards)
    steps, usual = (len(ledger.optimizer_steps) for ledger in (candidate, original))
    if abs(steps / batches - usual / usual_batches) > 0.01:
        yield sentences.STEPS_PER_BATCH.format(steps=steps, batches=batches, usual=usual, usual_batches=usual_batches)
    backwards, usual = (sum(step.backwards for step in ledger.steps) for ledger in (candidate, original))
    if abs(backwards / batches - usual / usual_batches) > 0.01:
        yield sentences.BACKWARDS.format(backwards=backwards, batches=batches, usual=usual, usual_batches=usual_batches)


def check_batches(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that what enters the model has the same shape and type; where sizes differ, on the average."""
    ours, theirs = original.largest_batch, candidate.largest_batch
    if len({forward.shape[1:] for forward in original.forwards}) > 1:  # as of padded sentences
        now, usual = (mean(math.prod(each.shape[1:]) for each in of.forwards) for of in (candidate, original))
        if now < MIN_SIZE * usual:
            yield sentences.INPUT_SIZES.format(now=now, usual=usual)
    elif theirs.shape[1:] != ours.shape[1:]:
        yield sentences.INPUT.format(now=dimensions(theirs.shape[1:]), usual=dimensions(ours.shape[1:]))
    if theirs.shape[0] != ours.shape[0]:
        yield sentences.BATCH_SIZE.format(now=theirs.shape[0], usual=ours.shape[0])
    if theirs.dtype != ours.dtype:
        yield sentences.INPUT.format(now=theirs.dtype, usual=ours.dtype)
    if theirs.autocast and not ours.autocast:
        yield sentences.AUTOCAST


def check_items(original: Ledger, candidate: Ledger, items: int) -> Iterator[str]:
    """Check that every item comes once in an epoch, given their number, if it is known."""
    if any(forward.targets is None for forward in original.forwards):
        yield from _check_totals(original, candidate)
        return
    if any(forward.targets is None for forward in candidate.forwards):
        yield Unseen(sentences.UNSEEN_TARGETS)
        return
    steps = len(epochs(original)[0])
    everything = targets_in(epochs(original)[0])
    is_whole = len(original.loader_starts) > 1 or everything.total() == items
    if original.drops_items or not is_whole or any(targets_in(epoch) != everything for epoch in epochs(original)):
        yield from _check_totals(original, candidate)
        return  # what is compared is a part of an epoch, or the items are drawn, or left out, by chance
    if all(targets_in(epoch) == everything for epoch in epochs(candidate, steps)):
        return
    # Something is wrong. An epoch is then what the script takes for one: from one iter(loader) to the next. Where all
    # of these are whole, another check says what is wrong with their steps.
    seen = next((found for epoch in epochs(candidate) if (found := targets_in(epoch)) != everything), everything)
    total, all_of = seen.total(), everything.total()
    if total < all_of:
        batch = original.largest_batch.shape[0]
        is_last = all_of - total == (all_of % batch or batch)
        yield (sentences.LAST_DROPPED if is_last else sentences.SKIPPED).format(total=total, items=all_of)
    elif total > all_of:
        yield sentences.OTHER_TOTAL.format(total=total, items=all_of)
    elif seen != everything:
        missing, surplus = (everything - seen).total(), (seen - everything).total()
        yield sentences.OTHER_ITEMS.format(items=all_of, missing=missing, surplus=surplus)


def _check_totals(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Where items cannot be told from each other: check that as many come from one `iter(loader)` to the next."""
    if min(len(original.loader_starts), len(candidate.loader_starts)) < 2:
        return
    ours, theirs = (
        {sum(forward.shape[0] for forward in forwards_in(epoch)) for epoch in epochs(ledger)}
        for ledger in (original, candidate)
    )
    if len(ours) == 1 and not theirs & ours:
        yield sentences.OTHER_TOTAL.format(total=min(theirs), items=min(ours))


def check_progress(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each step moves all the parameters that it moves in the original, and that nothing else moves them."""
    tensors = len(candidate.model.parameters) if candidate.model else 0
    still, usual = (_shares(ledger, "still") for ledger in (candidate, original))
    idle = [share for row, share in still.items() if row < tensors and share > usual.get(row, 0.0) + FEW]
    if idle:
        yield sentences.IDLE.format(share=max(idle), idle=len(idle), tensors=tensors)
    touched, usual = (_shares(ledger, "touched") for ledger in (candidate, original))
    others = {row: share for row, share in touched.items() if share > (2 * usual[row] + FEW if row in usual else 0.0)}
    if others:
        what = "the model's parameters" if min(others) < tensors else "the optimizer's state"
        yield sentences.TOUCHED.format(what=what, tensors=len(others), share=max(others.values()))


def _shares(ledger: Ledger, what: str) -> dict[int, float]:
    """For each tensor, the share of the steps that were "still" in it, or in which it was "touched"."""
    count = Counter(row for step in ledger.optimizer_steps for row in getattr(step, what))
    return {row: times / len(ledger.optimizer_steps) for row, times in count.items()}


def check_steps(ranks: Sequence[Ledger]) -> Iterator[str]:
    """Check that all ranks take as many steps from one beginning of their DataLoader to the next."""
    steps = [len(epochs(ledger)[0]) for ledger in ranks]
    if len(set(steps)) > 1:
        counts = ", ".join(f"rank {rank} takes {count}" for rank, count in enumerate(steps))
        yield sentences.RANKS_STEPS.format(counts=counts)


def check_parameters(ranks: Sequence[Ledger]) -> Iterator[str]:
    """Check that all ranks have the same parameters after each step."""
    for number, steps in enumerate(zip(*(ledger.steps for ledger in ranks), strict=False), start=1):
        values = [np.array(step.parameter) for step in steps if step.parameter is not None]
        for one, other in pairwise(values):
            if not np.allclose(one, other, rtol=SAME_ON_RANKS, atol=SAME_ON_RANKS * float(np.abs(one).max())):
                yield sentences.RANKS_APART.format(number=number)
                return
