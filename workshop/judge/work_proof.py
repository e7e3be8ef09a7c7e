"""Whether two scripts do the same work, judged by what they did, never by how they are written.

Each `check_...` looks at one aspect and returns what is wrong with the candidate. The original sets the standard: the
candidate need not do what the original's ledger does not show either. If the candidate's work cannot be seen, that is
no accusation: such a reason is unseen.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean

import numpy as np

from workshop.judge.asked_proof import check_asked
from workshop.judge.draw_proof import DRAW_CHECKS, draws_are_known, draws_are_shared
from workshop.judge.input_proof import check_inputs
from workshop.judge.inputs import may_be_alike
from workshop.judge.item_proof import check_made_anew
from workshop.judge.ledger import Ledger, epochs, forwards_in, targets_in
from workshop.judge.optimizer_proof import check_optimizer, check_other_optimizers
from workshop.judge.order_proof import check_order
from workshop.judge.output_proof import check_written
from workshop.judge.photo_proof import check_photos
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.step_proof import are_the_same, check_recomputed
from workshop.judge.two_samples import MAX_BY_CHANCE, MAX_DEVIATIONS
from workshop.probe.events import MAX_TARGETS

ITEM_CHECKS = check_order, check_asked, check_inputs
"""Of what enters the models: in what order the items come, which ones they are, and what all of them look like."""

MIN_SIZE = 0.9
"""Share, at least, of the original's mean size that inputs of varying size must have."""

MIN_VALIDATED = 0.8
"""Share, at least, of the original's items on which models must be called without gradients, less one validation."""

MAX_APART_ON_RANKS = 1e-5
"""Difference, at most, between the parameters on two ranks, relative to the largest parameter."""


class WorkReason(ReasonKind):
    """What is said of the training as a whole: its model, passes, batches, items, steps and ranks."""

    COVERED = "compared: {steps:,} steps, {count:.0f} epochs; {validated}; {traced}"
    COVERED_OF_LONG = "compared: {steps:,} steps of epochs of {whole:,}; {validated}; {traced}"
    SAME_INPUTS = "the inputs of {traced} sampled steps are what the original makes of the same items"
    ALIKE_INPUTS = "the inputs of {traced} sampled steps are drawn as the original's of the same items"
    AS_SAMPLES = "inputs as samples: which items they are cannot be seen"
    VALIDATED = "models called without gradients, as to validate, on {items:,} items"
    NOT_VALIDATED = "no validation was seen"
    FLAT_PARAMETERS = (
        "FullyShardedDataParallel joins the parameters into one; fully_shard leaves them as they are",
        UNSEEN,
    )
    NO_TRAINING = (
        "no training was seen: no model with parameters was called and stepped by an optimizer; a model that is called "
        "inside of torch.func, as by grad or vmap, cannot be seen; with backward() it can",
        UNSEEN,
    )
    CLOCK_REPLACED = "the script replaces {0}: leave the clocks alone; the judge uses its own"
    OTHER_MODEL = "the model is another one: {candidate:,} parameters, the original has {original:,}"
    OTHER_FIRST_MODEL = "the model that is called first is not the one that the original calls first", UNSEEN
    PASSES_JOINED = (
        "the model takes {candidate} items at a time, the original's {original}, and a step has as many as in the "
        "original: whether it computes the same cannot be seen",
        UNSEEN,
    )
    OTHER_STEPS = (
        "the optimizer steps {candidate} times for {batches} batches, in the original {original} times for {originals}"
    )
    OTHER_BACKWARDS = (
        "backward runs {candidate} times for {batches} batches, in the original {original} times for {originals}"
    )
    BACKWARD_OF_SUM = "{0}: whether each batch takes part in it cannot be seen", UNSEEN
    FEWER_VALIDATED = (
        "in {steps} steps its models validate on {candidate} items, the original's on {original}, or are called "
        "without gradients: is a validation left out, or seldom done?",
        UNSEEN,
    )
    SMALLER_INPUTS = "the model's inputs have {candidate:.0f} values on the average, the original's {original:.0f}"
    OTHER_SIZES = (
        "the model's inputs are not as long as the original's: half of them have from {candidate[0]:.0f} to "
        "{candidate[1]:.0f} values, in the original half of them have from {original[0]:.0f} to {original[1]:.0f} "
        "values"
    )
    IN_SOME_PASSES = "in {count} of {passes} passes "
    OTHER_SHAPE = "{where}the model's input is {candidate}, the original's {original}"
    OTHER_TYPE = "{where}the model's input is {0}, the original's {1}"
    AUTOCAST = "{where}the model runs in lower precision (autocast), the original in full"
    OTHER_BATCH_SIZE = "batches have {candidate} items, the original's {original}"
    SMALLER_BATCHES = "batches have {candidate:.1f} items on the average, the original's {original:.1f}"
    FEWER_TARGETS = "the loss takes {candidate:.3g} targets for each item, the original's {original:.3g}"
    TARGETS_UNSEEN = "the targets cannot be seen: take the loss from a loss function of torch.nn", UNSEEN
    LAST_BATCH_DROPPED = "an epoch trains on {candidate} of {original} items: the last batch is dropped"
    BATCHES_SKIPPED = "an epoch trains on {candidate} of {original} items: batches are skipped"
    OTHER_NUMBER_OF_ITEMS = "an epoch trains on {candidate} items, the original on {original}"
    OTHER_ITEMS = (
        "of the {items} items of an epoch, {missing} are missing, and {surplus} are repeated or have a wrong target: "
        "each must come once, with its own target"
    )
    PARAMETERS_STILL = "{share:.0%} of the optimizer steps moved nothing in {tensors} of the model's {of} tensors"
    PARAMETERS_TOUCHED = (
        "between optimizer steps something else has changed the model's parameters: {tensors} of its tensors, after "
        "{share:.0%} of the steps"
    )
    STATE_TOUCHED = (
        "between optimizer steps something else has changed the optimizer's state: {tensors} of its tensors, after "
        "{share:.0%} of the steps"
    )
    BUFFERS_TOUCHED = (
        "between optimizer steps something else has changed the model's buffers, such as running means: {tensors} of "
        "its tensors, after {share:.0%} of the steps"
    )
    RANKS_OUT_OF_STEP = "the ranks do not step together: in an epoch, {counts} steps"
    RANKS_APART = (
        "after step {step} the ranks have different parameters: they do not share their gradients; "
        "DistributedDataParallel does it"
    )
    RANKS_APART_IN_SAMPLE = "at a sampled step, the ranks have different parameters: they do not train one model"


def differences(
    original: Ledger, candidate: Ledger, wasted_time_s: float | None = None, items: int = 0
) -> list[Reason]:
    """Return what the candidate does differently from the original; nothing if it does the same work.

    What cannot be seen comes last. Each read of a photo must have slept for `wasted_time_s`, if there is such a rule.
    `items` is the number of items in an epoch of the original; 0 if it is not known.
    """
    if candidate.model and candidate.model.is_flat:
        return [WorkReason.FLAT_PARAMETERS()]
    if complaints := [*check_parameters(candidate.ranks), *check_steps(candidate.ranks)]:
        return complaints
    if any(result.apart > MAX_APART_ON_RANKS for result in candidate.recomputed):
        return [WorkReason.RANKS_APART_IN_SAMPLE()]
    if not candidate.forwards:
        return [WorkReason.NO_TRAINING()]
    of_model = [*check_model(original, candidate)]
    if any(reason.is_unseen for reason in of_model):
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
        # A script of one's own may draw more than transforms do.
        draws = [items > 0 and are_so(*both) for are_so in (draws_are_known, draws_are_shared)]
        complaints = [*check_photos(*both, wasted_time_s), *check_made_anew(*both, *draws)]
        for check in (*DRAW_CHECKS, check_progress, check_recomputed, check_written):
            complaints += check(*both)
        for check in ITEM_CHECKS:
            if all(reason.is_unseen for reason in complaints):
                complaints += check(*both)
    return sorted(complaints, key=lambda reason: reason.is_unseen)


def covered(candidate: Ledger, steps: int, whole_steps: int | None) -> Reason:
    """Return how much of the candidate's training was compared.

    An epoch has so many `steps`; if it was cut, `whole_steps` is what its DataLoader would have made of it.
    """
    items = sum(step.without_gradients for step in candidate.steps)
    validated = WorkReason.VALIDATED(items=items) if items else WorkReason.NOT_VALIDATED()
    taken, made = len(candidate.optimizer_steps), [each.made for each in candidate.recomputed if each.made]
    traced = [each for each in made if not each.error]
    kind = WorkReason.SAME_INPUTS if all(each.same == each.items for each in traced) else WorkReason.ALIKE_INPUTS
    how = {"validated": validated, "traced": kind(traced=len(traced)) if traced else WorkReason.AS_SAMPLES()}
    if whole_steps and whole_steps > steps:
        return WorkReason.COVERED_OF_LONG(steps=taken, whole=whole_steps, **how)
    return WorkReason.COVERED(steps=taken, count=taken / steps, **how)


def check_clocks(candidate: Ledger) -> Iterator[Reason]:
    """Check that the script has not replaced a clock."""
    if candidate.replaced_clocks:
        yield WorkReason.CLOCK_REPLACED(", ".join(f"time.{name}" for name in candidate.replaced_clocks))


def check_model(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the model has the same parameters, or as many in other shapes, which `check_recomputed` may map."""
    if not original.model or not candidate.model:
        return
    ours, theirs = (Counter(model.parameters) for model in (original.model, candidate.model))
    if ours == theirs:
        return
    if any(Counter(each.shapes) == ours for each in candidate.others):
        yield WorkReason.OTHER_FIRST_MODEL()
        return
    sizes = [sum(math.prod(shape) * n for shape, n in each.items()) for each in (theirs, ours)]
    if sizes[0] != sizes[1]:
        yield WorkReason.OTHER_MODEL(candidate=sizes[0], original=sizes[1])


def _dimensions(shape: Sequence[int]) -> str:
    """Return a shape as text, such as "3 x 64 x 64"."""
    return " x ".join(str(size) for size in shape)


def check_joined(original: Ledger, candidate: Ledger) -> list[Reason]:
    """Return what cannot be seen of a step that has as many items as the original's, in fewer and larger passes.

    It may be the same work, as with two views of a picture in one pass; with batch normalisation it is not.
    """
    ours, theirs = (of.items_in(slice(None)) / max(len(of.optimizer_steps), 1) for of in (original, candidate))
    largest, of_original = (each.largest_batch.shape[0] for each in (candidate, original))
    if largest <= of_original or abs(theirs - ours) > MAX_BY_CHANCE * ours:
        return []
    return [WorkReason.PASSES_JOINED(candidate=largest, original=of_original)]


def check_passes(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that each optimizer step has the same number of forward and backward passes."""
    batches, originals = len(candidate.forwards), len(original.forwards)
    of_batches = {"batches": batches, "originals": originals}
    steps, expected = (len(ledger.optimizer_steps) for ledger in (candidate, original))
    if abs(steps / batches - expected / originals) > 0.01:
        yield WorkReason.OTHER_STEPS(candidate=steps, original=expected, **of_batches)
    backwards, expected = (sum(step.backwards for step in ledger.steps) for ledger in (candidate, original))
    if abs(backwards / batches - expected / originals) > 0.01:
        found = WorkReason.OTHER_BACKWARDS(candidate=backwards, original=expected, **of_batches)
        in_each = {step.backwards for step in candidate.steps}
        is_summed = len(in_each) == 1 and 0 < backwards < expected  # one pass for a sum of losses is the same work
        yield WorkReason.BACKWARD_OF_SUM(found) if is_summed else found


def check_without_gradients(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that models are called to validate, or otherwise without gradients, on as many items in the same steps.

    One validation more or less, and some by their share, prove nothing: a step of the candidate that the original takes
    moves the original's own count of steps, by which it may validate. The largest validation must be as large.
    """
    ours, theirs = ([each for each in ledger.steps if not each.run_index] for ledger in (original, candidate))
    count = min(len(ours), len(theirs))
    both = [[step.without_gradients for step in steps[:count]] for steps in (ours, theirs)]
    (expected, validated), (one, other) = map(sum, both), (max(each, default=0) for each in both)
    if validated < MIN_VALIDATED * expected - one or other < MIN_VALIDATED * one:
        yield WorkReason.FEWER_VALIDATED(steps=count, candidate=validated, original=expected)


def check_batches(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that every input of the model has the same shape and dtype; if sizes vary, that they vary alike."""
    ours, theirs = original.largest_batch, candidate.largest_batch
    our_sizes, sizes = ([math.prod(each.shape[1:]) for each in of.forwards] for of in (original, candidate))
    our_shapes = {forward.shape[1:] for forward in original.forwards}
    if len(our_shapes) > 1:  # as of padded sentences
        if mean(sizes) < MIN_SIZE * mean(our_sizes):
            yield WorkReason.SMALLER_INPUTS(candidate=mean(sizes), original=mean(our_sizes))
        elif not may_be_alike(our_sizes, sizes):
            quarters = [np.quantile(each, [0.25, 0.75]) for each in (sizes, our_sizes)]
            yield WorkReason.OTHER_SIZES(candidate=quarters[0], original=quarters[1])
    elif others := [each.shape[1:] for each in candidate.forwards if each.shape[1:] not in our_shapes]:
        where, expected = _in_passes(len(others), len(sizes)), _dimensions(ours.shape[1:])
        yield WorkReason.OTHER_SHAPE(where=where, candidate=_dimensions(others[0]), original=expected)
    our_items, items = ([each.shape[0] for each in of.forwards] for of in (original, candidate))
    vary = len(set(our_items)) > 2  # not only the last batch is smaller, as where a batch has so many words
    if not vary and theirs.shape[0] != ours.shape[0]:
        yield WorkReason.OTHER_BATCH_SIZE(candidate=theirs.shape[0], original=ours.shape[0])
    elif not may_be_alike(our_items, items) if vary else mean(items) < (1 - MAX_BY_CHANCE) * mean(our_items):
        yield WorkReason.SMALLER_BATCHES(candidate=mean(items), original=mean(our_items))
    yield from _check_types(original, candidate)
    per_item, of_original = (mean(_targets_per_item(of) or [0.0]) for of in (candidate, original))
    is_shorter = math.prod(theirs.shape[1:]) < math.prod(ours.shape[1:]) or mean(sizes) < MIN_SIZE * mean(our_sizes)
    if 0 < per_item < MIN_SIZE * of_original and not (is_shorter or are_the_same(candidate.recomputed)):
        yield WorkReason.FEWER_TARGETS(candidate=per_item, original=of_original)


def _in_passes(count: int, passes: int) -> Reason | str:
    """Return in how many of the passes something is so; "" for all of them."""
    return "" if count == passes else WorkReason.IN_SOME_PASSES(count=count, passes=passes)


def _targets_per_item(ledger: Ledger) -> list[float]:
    """Return how many targets each pass has for an item, where they were noted whole."""
    passes = ((len(each.targets or ()), each.shape[0]) for each in ledger.forwards)
    return [targets / items for targets, items in passes if 0 < targets < MAX_TARGETS]


def _check_types(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that inputs have the same dtype in every pass, and that none is computed in lower precision."""
    expected, count = {each.dtype for each in original.forwards}, len(candidate.forwards)
    if others := [each.dtype for each in candidate.forwards if each.dtype not in expected]:
        where = _in_passes(len(others), count)
        yield WorkReason.OTHER_TYPE(others[0], " or ".join(sorted(expected)), where=where)
    lower = sum(each.autocast for each in candidate.forwards)
    if lower and not any(each.autocast for each in original.forwards):
        yield WorkReason.AUTOCAST(where=_in_passes(lower, count))


def check_items(original: Ledger, candidate: Ledger, items: int) -> Iterator[Reason]:
    """Check that every item comes once in an epoch, given their number (0 if it is not known)."""
    if any(forward.targets is None for forward in original.forwards):
        yield from _check_totals(original, candidate)
        return
    if any(forward.targets is None for forward in candidate.forwards):
        yield WorkReason.TARGETS_UNSEEN()
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
        kind = WorkReason.LAST_BATCH_DROPPED if is_last else WorkReason.BATCHES_SKIPPED
        yield kind(candidate=total, original=all_of)
    elif total > all_of:
        yield WorkReason.OTHER_NUMBER_OF_ITEMS(candidate=total, original=all_of)
    elif seen != everything:
        missing, surplus = (everything - seen).total(), (seen - everything).total()
        yield WorkReason.OTHER_ITEMS(items=all_of, missing=missing, surplus=surplus)


def _check_totals(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that each `iter(loader)` yields the same number of items, where these cannot be told apart."""
    if min(len(original.loader_starts), len(candidate.loader_starts)) < 2:
        return
    ours, theirs = (
        {sum(forward.shape[0] for forward in forwards_in(epoch)) for epoch in epochs(ledger)}
        for ledger in (original, candidate)
    )
    if len(ours) == 1 and not theirs & ours:
        yield WorkReason.OTHER_NUMBER_OF_ITEMS(candidate=min(theirs), original=min(ours))


def check_progress(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that each step moves all the parameters it moves in the original, and that only steps move them."""
    tensors = len(candidate.model.parameters) if candidate.model else 0
    still, expected = _shares_of_both(original, candidate, "still")
    scarcity = sum(1 / max(len(ledger.optimizer_steps), 1) for ledger in (candidate, original))

    def most(share: float) -> float:  # as of rows of an embedding, and of layers that are dropped now and then
        return share + MAX_BY_CHANCE + MAX_DEVIATIONS * math.sqrt(share * (1 - share) * scarcity)

    idle = [share for row, share in still.items() if row < tensors and share > most(expected.get(row, 0.0))]
    if idle:
        yield WorkReason.PARAMETERS_STILL(share=max(idle), tensors=len(idle), of=tensors)
    is_shared = candidate.model is not None and candidate.model.ranks > 1  # ranks exchange their buffers
    for field in ("touched", *([] if is_shared else ["touched_buffers"])):
        touched, expected = _shares_of_both(original, candidate, field)
        others = {
            row: of
            for row, of in touched.items()
            if of > (2 * expected[row] + MAX_BY_CHANCE if row in expected else 0.0)
        }
        if others:
            of_model = WorkReason.PARAMETERS_TOUCHED if min(others) < tensors else WorkReason.STATE_TOUCHED
            kind = of_model if field == "touched" else WorkReason.BUFFERS_TOUCHED
            yield kind(tensors=len(others), share=max(others.values()))


def _shares_of_both(original: Ledger, candidate: Ledger, what: str) -> tuple[dict[int, float], dict[int, float]]:
    """Return the candidate's `_shares`, and those expected: the largest, where its parameters have other shapes."""
    found, expected = (_shares(ledger, what) for ledger in (candidate, original))
    models = original.model, candidate.model
    if expected and all(models) and len({model.parameters for model in models if model}) > 1:
        expected = dict.fromkeys(found, max(expected.values()))
    return found, expected


def _shares(ledger: Ledger, what: str) -> dict[int, float]:
    """For each tensor, the share of the steps that left it "still", or after which it was "touched"."""
    count = Counter(row for step in ledger.optimizer_steps for row in getattr(step, what))
    return {row: times / len(ledger.optimizer_steps) for row, times in count.items()}


def check_steps(ranks: Sequence[Ledger]) -> Iterator[Reason]:
    """Check that all ranks take the same number of steps in an epoch of their DataLoader."""
    steps = [len(epochs(ledger)[0]) for ledger in ranks]
    if len(set(steps)) > 1:
        counts = ", ".join(f"rank {rank} takes {count}" for rank, count in enumerate(steps))
        yield WorkReason.RANKS_OUT_OF_STEP(counts=counts)


def check_parameters(ranks: Sequence[Ledger]) -> Iterator[Reason]:
    """Check that all ranks have the same parameters after each step."""
    for number, steps in enumerate(zip(*(ledger.steps for ledger in ranks), strict=False), start=1):
        values = [np.array(step.parameter) for step in steps if step.parameter is not None]
        for one, other in pairwise(values):
            if not np.allclose(one, other, MAX_APART_ON_RANKS, MAX_APART_ON_RANKS * float(np.abs(one).max())):
                yield WorkReason.RANKS_APART(step=number)
                return
