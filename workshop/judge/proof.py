"""Whether two scripts do the same work, judged by what they did, never by how they are written.

Each `check_...` looks at one aspect and returns what is wrong, as sentences about the candidate. The original sets the
standard: the candidate need not do what the original's ledger does not show either. If the candidate's work cannot be
seen, that is no accusation: such a sentence is an `UnseenWork`.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean

import numpy as np

from workshop.judge.input_proof import check_inputs
from workshop.judge.ledger import Ledger, epochs, forwards_in, targets_in
from workshop.judge.optimizer_proof import check_optimizer, check_other_optimizers
from workshop.judge.order_proof import check_order
from workshop.judge.picture_proof import PICTURE_CHECKS, check_reads
from workshop.judge.step_proof import check_recomputed
from workshop.judge.transform_proof import FEW, TRANSFORM_CHECKS, dimensions
from workshop.judge.two_samples import RARE, TOO_RARE, Strata
from workshop.judge.verdict import UnseenWork
from workshop.probe.events import MAX_TARGETS

MIN_SIZE = 0.9
"""Inputs of varying size must have at least this share of the original's size, on average."""

MIN_ITEMS = 0.95
"""Batches must have this share of the original's items, on average."""

MIN_VALIDATED = 0.8
"""Models must be called without gradients on this share of the original's items, less those of one validation."""

MAX_PASSES = 500
"""The number of passes of each script whose sizes are compared, where these vary."""

SAME_ON_RANKS = 1e-5
"""The largest difference between parameters on two ranks, relative to the largest parameter."""

DEVIATIONS = 5
"""Where some steps leave a tensor as it is by chance, their share may be off by this many times its own deviation."""


def differences(original: Ledger, candidate: Ledger, wasted_time_s: float | None = None, items: int = 0) -> list[str]:
    """Return what the candidate does differently from the original; nothing if it does the same work.

    `UnseenWork` sentences come last. Each read of a photo must have slept for `wasted_time_s`, if there is such a rule.
    `items` is the number of items in an epoch of the original; 0 if it is not known.
    """
    if candidate.model and candidate.model.is_flat:
        return [
            UnseenWork("FullyShardedDataParallel joins the parameters into one; fully_shard leaves them as they are")
        ]
    if complaints := [*check_parameters(candidate.ranks), *check_steps(candidate.ranks)]:
        return complaints
    if any(result.apart > SAME_ON_RANKS for result in candidate.recomputed):
        return ["at a sampled step, the ranks have different parameters: they do not train one model"]
    if not candidate.forwards:
        says = "no training was seen: no model with parameters was called and stepped by an optimizer"
        inside = (
            "a model that is called inside of torch.func, as by grad or vmap, cannot be seen; with backward() it can"
        )
        return [UnseenWork(f"{says}; {inside}")]
    of_model = [*check_model(original, candidate)]
    if any(isinstance(each, UnseenWork) for each in of_model):
        return of_model  # what is seen of it is the work of another model
    both = original, candidate
    complaints = [
        *check_clocks(candidate),
        *of_model,
        *check_optimizer(*both),
        *check_other_optimizers(*both),
        *(check_joined(*both) or (*check_passes(*both), *check_batches(*both))),
        *check_items(*both, items),
    ]
    if not complaints:  # what follows would only repeat these
        complaints = [*check_reads(*both, wasted_time_s)]
        for check in (*TRANSFORM_CHECKS, *PICTURE_CHECKS, check_order, check_inputs, check_progress, check_recomputed):
            complaints += check(*both)
    return sorted(complaints, key=lambda each: isinstance(each, UnseenWork))


def check_clocks(candidate: Ledger) -> Iterator[str]:
    """Check that the script has not replaced a clock."""
    if candidate.replaced_clocks:
        names = ", ".join(f"time.{name}" for name in candidate.replaced_clocks)
        yield f"the script replaces {names}: leave the clocks alone; the judge uses its own"


def check_model(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the model has the same parameters."""
    if not original.model or not candidate.model:
        return
    ours, theirs = (Counter(model.parameters) for model in (original.model, candidate.model))
    if ours == theirs:
        return
    if any(Counter(each.shapes) == ours for each in candidate.others):
        yield UnseenWork("the model that is called first is not the one that the original calls first")
    else:
        now, usual = (sum(math.prod(shape) * n for shape, n in each.items()) for each in (theirs, ours))
        yield f"the model is another one: {now:,} parameters, the original has {usual:,}"


def check_joined(original: Ledger, candidate: Ledger) -> list[str]:
    """Return what cannot be seen of a step that has as many items as the original's, in fewer and larger passes.

    It may be the same work, as with two views of a picture in one pass; with batch normalisation it is not.
    """
    ours, theirs = (of.items_in(slice(None)) / max(len(of.optimizer_steps), 1) for of in (original, candidate))
    now, usual = (each.largest_batch.shape[0] for each in (candidate, original))
    if now <= usual or abs(theirs - ours) > FEW * ours:
        return []
    says = f"the model takes {now} items at a time, the original's {usual}, and a step has as many as in the original"
    return [UnseenWork(f"{says}: whether it computes the same cannot be seen")]


def check_passes(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each optimizer step has the same number of forward and backward passes."""
    batches, originals = len(candidate.forwards), len(original.forwards)
    steps, usual = (len(ledger.optimizer_steps) for ledger in (candidate, original))
    if abs(steps / batches - usual / originals) > 0.01:
        yield f"the optimizer steps {steps} times for {batches} batches, in the original {usual} times for {originals}"
    backwards, usual = (sum(step.backwards for step in ledger.steps) for ledger in (candidate, original))
    if abs(backwards / batches - usual / originals) > 0.01:
        found = f"backward runs {backwards} times for {batches} batches, in the original {usual} times for {originals}"
        in_each = {step.backwards for step in candidate.steps}
        is_summed = len(in_each) == 1 and 0 < backwards < usual  # one pass for a sum of losses is the same work
        yield UnseenWork(f"{found}: whether each batch takes part in it cannot be seen") if is_summed else found


def check_without_gradients(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that models are called to validate, or otherwise without gradients, on as many items in the same steps.

    One validation more or less, and some by their share, prove nothing: a step of the candidate that the original takes
    moves the original's own count of steps, by which it may validate.
    """
    ours, theirs = ([each for each in ledger.steps if not each.run_index] for ledger in (original, candidate))
    count = min(len(ours), len(theirs))
    usual, now = (sum(step.without_gradients for step in steps[:count]) for steps in (ours, theirs))
    one = max((step.without_gradients for step in ours[:count]), default=0)
    if now < MIN_VALIDATED * usual - one or (usual and not now):
        yield UnseenWork(
            f"in {count} steps its models validate on {now} items, the original's on {usual}, or are called without "
            "gradients: is a validation left out, or seldom done?"
        )


def check_batches(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that every input of the model has the same shape and dtype; if sizes vary, that they vary alike."""
    ours, theirs = original.largest_batch, candidate.largest_batch
    usual_sizes, sizes = ([math.prod(each.shape[1:]) for each in of.forwards] for of in (original, candidate))
    usual_shapes = {forward.shape[1:] for forward in original.forwards}
    if len(usual_shapes) > 1:  # as of padded sentences
        now, usual = mean(sizes), mean(usual_sizes)
        if now < MIN_SIZE * usual:
            yield f"the model's inputs have {now:.0f} values on the average, the original's {usual:.0f}"
        elif not _may_be_alike(usual_sizes, sizes):
            quarters = (np.quantile(each, [0.25, 0.75]) for each in (sizes, usual_sizes))
            says = (f"half of them have from {low:.0f} to {high:.0f} values" for low, high in quarters)
            yield "the model's inputs are not as long as the original's: {}, in the original {}".format(*says)
    elif others := [each.shape[1:] for each in candidate.forwards if each.shape[1:] not in usual_shapes]:
        which = "" if len(others) == len(sizes) else f"in {len(others)} of {len(sizes)} passes "
        yield f"{which}the model's input is {dimensions(others[0])}, the original's {dimensions(ours.shape[1:])}"
    usual_items, items = ([each.shape[0] for each in of.forwards] for of in (original, candidate))
    now, usual = mean(items), mean(usual_items)
    vary = len(set(usual_items)) > 2  # not only the last batch is smaller, as where a batch has so many words
    if not vary and theirs.shape[0] != ours.shape[0]:
        yield f"batches have {theirs.shape[0]} items, the original's {ours.shape[0]}"
    elif not _may_be_alike(usual_items, items) if vary else now < MIN_ITEMS * usual:
        yield f"batches have {now:.1f} items on the average, the original's {usual:.1f}"
    yield from _check_kinds(original, candidate)
    per_item, usual = (mean(_targets_per_item(of) or [0.0]) for of in (candidate, original))
    is_shorter = math.prod(theirs.shape[1:]) < math.prod(ours.shape[1:]) or mean(sizes) < MIN_SIZE * mean(usual_sizes)
    if 0 < per_item < MIN_SIZE * usual and not is_shorter:
        yield f"the loss takes {per_item:.3g} targets for each item, the original's {usual:.3g}"


def _targets_per_item(ledger: Ledger) -> list[float]:
    """Return how many targets each pass has for an item, where they were noted whole."""
    passes = ((len(each.targets or ()), each.shape[0]) for each in ledger.forwards)
    return [targets / items for targets, items in passes if 0 < targets < MAX_TARGETS]


def _check_kinds(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that inputs have the same dtype in every pass, and that none is computed in lower precision."""
    usual, count = {each.dtype for each in original.forwards}, len(candidate.forwards)
    if others := [each.dtype for each in candidate.forwards if each.dtype not in usual]:
        which = "" if len(others) == count else f"in {len(others)} of {count} passes "
        yield f"{which}the model's input is {others[0]}, the original's {' or '.join(sorted(usual))}"
    lower = sum(each.autocast for each in candidate.forwards)
    if lower and not any(each.autocast for each in original.forwards):
        which = "" if lower == count else f"in {lower} of {count} passes "
        yield f"{which}the model runs in lower precision (autocast), the original in full"


def _may_be_alike(usual: Sequence[float], now: Sequence[float]) -> bool:
    """Return whether figures of the passes may come from the same source; the original's epochs may be unlike, too."""

    def chance(one: Sequence[float], other: Sequence[float]) -> float:
        one, other = one[:MAX_PASSES], other[:MAX_PASSES]
        strata = Strata.of_all(len(one), np.arange(len(one) + len(other)))
        return strata.chance_of_figures(np.array([*one, *other], np.float64))

    half = len(usual) // 2
    return chance(usual, now) >= TOO_RARE or chance(usual[:half], usual[half:]) <= RARE


def check_items(original: Ledger, candidate: Ledger, items: int) -> Iterator[str]:
    """Check that every item comes once in an epoch, given their number (0 if it is not known)."""
    if any(forward.targets is None for forward in original.forwards):
        yield from _check_totals(original, candidate)
        return
    if any(forward.targets is None for forward in candidate.forwards):
        yield UnseenWork("the targets cannot be seen: take the loss from a loss function of torch.nn")
        return
    steps = len(epochs(original)[0])
    everything = targets_in(epochs(original)[0])
    # One epoch alone does not show that its items come again: a target may be a random number.
    is_whole = len(epochs(original)) > 1 or everything.total() == items
    if len(candidate.loader_starts) < 2 and len(candidate.steps) < steps:
        is_whole = False  # the judge has cut its first epoch, and it has not come to the end of it yet
    if original.drops_items or not is_whole or any(targets_in(epoch) != everything for epoch in epochs(original)):
        yield from _check_totals(original, candidate)
        return  # only part of an epoch is compared, or items are sampled or dropped at random
    if all(targets_in(epoch) == everything for epoch in epochs(candidate, steps)):
        return
    # Something is wrong. An epoch is then whatever the script takes for one: from one iter(loader) to the next. If all
    # of those are whole, a different check says what is wrong with their steps.
    seen = next((found for epoch in epochs(candidate) if (found := targets_in(epoch)) != everything), everything)
    total, all_of = seen.total(), everything.total()
    if total < all_of:
        batch = original.largest_batch.shape[0]
        is_last = all_of - total == (all_of % batch or batch)
        what = "the last batch is dropped" if is_last else "batches are skipped"
        yield f"an epoch trains on {total} of {all_of} items: {what}"
    elif total > all_of:
        yield f"an epoch trains on {total} items, the original on {all_of}"
    elif seen != everything:
        missing, surplus = (everything - seen).total(), (seen - everything).total()
        yield (
            f"of the {all_of} items of an epoch, {missing} are missing, and {surplus} are repeated or have a wrong "
            "target: each must come once, with its own target"
        )


def _check_totals(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each `iter(loader)` yields the same number of items, where these cannot be told apart."""
    if min(len(original.loader_starts), len(candidate.loader_starts)) < 2:
        return
    ours, theirs = (
        {sum(forward.shape[0] for forward in forwards_in(epoch)) for epoch in epochs(ledger)}
        for ledger in (original, candidate)
    )
    if len(ours) == 1 and not theirs & ours:
        yield f"an epoch trains on {min(theirs)} items, the original on {min(ours)}"


def check_progress(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that each step moves all the parameters it moves in the original, and that only steps move them."""
    tensors = len(candidate.model.parameters) if candidate.model else 0
    still, usual = (_shares(ledger, "still") for ledger in (candidate, original))
    scarcity = sum(1 / max(len(ledger.optimizer_steps), 1) for ledger in (candidate, original))

    def most(share: float) -> float:  # as of rows of an embedding, and of layers that are dropped now and then
        return share + FEW + DEVIATIONS * math.sqrt(share * (1 - share) * scarcity)

    idle = [share for row, share in still.items() if row < tensors and share > most(usual.get(row, 0.0))]
    if idle:
        yield f"{max(idle):.0%} of the optimizer steps moved nothing in {len(idle)} of the model's {tensors} tensors"
    is_shared = candidate.model is not None and candidate.model.ranks > 1  # ranks exchange their buffers
    for kind in ("touched", *([] if is_shared else ["touched_buffers"])):
        touched, usual = (_shares(ledger, kind) for ledger in (candidate, original))
        others = {row: of for row, of in touched.items() if of > (2 * usual[row] + FEW if row in usual else 0.0)}
        if others:
            of_model = "the model's parameters" if min(others) < tensors else "the optimizer's state"
            what = of_model if kind == "touched" else "the model's buffers, such as running means"
            yield (
                f"between optimizer steps something else has changed {what}: {len(others)} of its tensors, after "
                f"{max(others.values()):.0%} of the steps"
            )


def _shares(ledger: Ledger, what: str) -> dict[int, float]:
    """For each tensor, the share of the steps that left it "still", or after which it was "touched"."""
    count = Counter(row for step in ledger.optimizer_steps for row in getattr(step, what))
    return {row: times / len(ledger.optimizer_steps) for row, times in count.items()}


def check_steps(ranks: Sequence[Ledger]) -> Iterator[str]:
    """Check that all ranks take the same number of steps in an epoch of their DataLoader."""
    steps = [len(epochs(ledger)[0]) for ledger in ranks]
    if len(set(steps)) > 1:
        counts = ", ".join(f"rank {rank} takes {count}" for rank, count in enumerate(steps))
        yield f"the ranks do not step together: in an epoch, {counts} steps"


def check_parameters(ranks: Sequence[Ledger]) -> Iterator[str]:
    """Check that all ranks have the same parameters after each step."""
    for number, steps in enumerate(zip(*(ledger.steps for ledger in ranks), strict=False), start=1):
        values = [np.array(step.parameter) for step in steps if step.parameter is not None]
        for one, other in pairwise(values):
            if not np.allclose(one, other, rtol=SAME_ON_RANKS, atol=SAME_ON_RANKS * float(np.abs(one).max())):
                yield (
                    f"after step {number} the ranks have different parameters: they do not share their gradients; "
                    "DistributedDataParallel does it"
                )
                return
