"""What entered a model, item by item, as a script's ledger shows it: any kind of data."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from workshop.judge.ledger import Ledger, epochs, forwards_in
from workshop.judge.signatures import values_of
from workshop.judge.two_samples import RARE, TOO_RARE, Array, Strata
from workshop.probe.events import SKETCH, ForwardPass, StepTaken

WORDS = 24
"""Random values that stand for a token, and for a pair of them."""

SAME_INPUT = 1e-3
"""Share, at most, of the median distance of two inputs by which two sketches of the same input differ. What was kept in
half precision gives 0.0003, in eight bits 0.005."""

MAX_OF_BATCH = 16
"""Items of a batch, at most, that are looked at for what they have in common."""

MAX_ITEMS = 400
"""Items of each script, at most, that are compared with each other; where that is quick, some times as many."""

MAX_CLASSES = 100
"""Different targets, at most, that are classes."""


@dataclass(frozen=True)
class Items:
    """Items that entered the model, with what is known of each."""

    sketches: Array
    features: Array
    """Figures that describe an item; NaN where they are not noted."""
    values: Array
    """The values of an item that are noted; NaN where they are not, and no column where items have different shapes."""
    targets: tuple[Any, ...]
    """The target of each item, or several; None if unknown."""
    epochs: Array
    """The number of the epoch of each."""
    batches: Array
    """The number of the batch of each."""
    runs: Array
    """The number of the script's run: another one may draw the same."""

    def __len__(self) -> int:
        return len(self.sketches)

    def __getitem__(self, which: Any) -> "Items":
        chosen = np.arange(len(self))[which]
        targets = tuple(self.targets[index] for index in chosen)
        others = (each[chosen] for each in (self.epochs, self.batches, self.runs))
        return Items(self.sketches[chosen], self.features[chosen], self.values[chosen], targets, *others)

    def with_more(self, others: "Items") -> "Items":
        """Return these and others."""
        sketches, features, values, epochs, runs = (
            np.concatenate([getattr(each, name) for each in (self, others)])
            for name in ("sketches", "features", "values", "epochs", "runs")
        )
        targets, batches = (*self.targets, *others.targets), batches_of(self, others)
        return Items(sketches, features, values, targets, epochs, batches, runs)

    @cached_property
    def noted(self) -> "Items":
        """Those of which the features are known."""
        return self[np.isfinite(self.features).all(axis=1)]

    def some(self, count: int) -> "Items":
        """Return no more than this many, chosen by chance."""
        return self if len(self) <= count else self[sorted(random.Random(len(self)).sample(range(len(self)), count))]

    def spread_over_batches(self, count: int) -> Array:
        """Return the places of no more than this many, which are some of each of the first batches."""
        _, first, batch = np.unique(self.batches, return_index=True, return_inverse=True)
        return np.flatnonzero(np.arange(len(self)) - first[batch] < MAX_OF_BATCH)[:count]

    @property
    def distinct(self) -> "Items":
        """Return one of those with the same sketch and target."""
        keys = zip((row.tobytes() for row in self.sketches), self.targets, strict=True)
        return self[sorted({key: place for place, key in enumerate(keys)}.values())]

    @property
    def longest_run(self) -> Array:
        """The numbers of the epochs in the run that has the most of them."""
        return max((np.unique(self.epochs[self.runs == run]) for run in np.unique(self.runs)), key=len)

    @property
    def largest_batch(self) -> int:
        """The number of items in the largest batch."""
        return int(np.bincount(self.batches).max())

    @property
    def have_targets(self) -> bool:
        """Whether the target of each is known."""
        return None not in self.targets

    @property
    def median_distance(self) -> float:
        """The median distance of two sketches."""
        dice = np.random.default_rng(0)
        one, other = (self.sketches[dice.integers(len(self), size=2000)].astype(np.float64) for _ in range(2))
        distances = np.sqrt(((one - other) ** 2).sum(1))
        return float(np.median(distances[distances > 0])) if distances.any() else 0.0

    def rounded(self, typical: float) -> Array:
        """Return sketches as whole numbers, the same ones for the same inputs."""
        return np.round(self.sketches / (SAME_INPUT * typical or 1.0)).astype(np.int64)

    def without(self, others: "Items") -> "Items":
        """Leave out what is among others, too, with the same target: scripts with the same seed share many inputs."""
        typical = others.median_distance
        rounded = (zip(each.rounded(typical), each.targets, strict=True) for each in (others, self))
        theirs, own = ([(row.tobytes(), target) for row, target in pairs] for pairs in rounded)
        known = set(theirs)
        return self[np.array([key not in known for key in own], bool)]


Place = tuple[int, int]
"""Where a pass belongs: the number of the epoch, and of the run."""


def batches_of(*samples: Items) -> Array:
    """Return the number of the batch of each item, another one in each sample."""
    firsts = np.cumsum([0, *(each.batches.max(initial=0) + 1 for each in samples)])
    return np.concatenate([each.batches + first for each, first in zip(samples, firsts, strict=False)])


def figures_of(*samples: Items) -> list[Array] | None:
    """Return the targets of each sample as figures, one for each item; None if some are none."""
    if not all(items.have_targets for items in samples):
        return None
    try:
        return [np.array([_figure(target) for target in items.targets]) for items in samples]
    except (TypeError, ValueError):
        return None


def _figure(target: Any) -> float:
    """Return a target, or a weighted sum of several."""
    if isinstance(target, int | float):
        return float(target)
    several = np.atleast_1d(np.asarray(target, np.float64))
    return float(several @ np.sqrt(np.arange(1.0, len(several) + 1)))


def may_be_alike(ours: Sequence[float] | Array, theirs: Sequence[float] | Array) -> bool:
    """Return whether figures of items or passes may come from the same source; the original's halves may be unlike."""

    def chance(one: Sequence[float] | Array, other: Sequence[float] | Array) -> float:
        one, other = one[:MAX_ITEMS], other[:MAX_ITEMS]
        strata = Strata.of_all(len(one), np.arange(len(one) + len(other)))
        return strata.chance_of_figures(np.array([*one, *other], np.float64))

    half = len(ours) // 2
    return chance(ours, theirs) >= TOO_RARE or chance(ours[:half], ours[half:]) <= RARE


def other_items_of(ledger: Ledger, steps: int) -> dict[int, Items]:
    """Return the items of each of the other inputs, by its place among those of a step, if all steps have the same."""
    cut = epochs(ledger, steps)
    kinds = {tuple((each.shape[1:], each.dtype) for each in step.other_inputs) for epoch in cut for step in epoch}
    if len(kinds) != 1:
        return {}
    by_place = zip(*(step.other_inputs for epoch in cut for step in epoch), strict=True)
    numbers = [(number, step.run_index) for number, epoch in enumerate(cut) for step in epoch]
    return {place: _joined(list(zip(numbers, found, strict=True))) for place, found in enumerate(by_place)}


def items_of(ledger: Ledger, steps: int) -> dict[int, Items]:
    """Return the items of each forward pass of a step, by its place among them; those of modules are left out."""
    by_place: dict[int, list[tuple[Place, ForwardPass]]] = {}
    cut = epochs(ledger, steps)
    passes = Counter(len(step.forwards) for epoch in cut for step in epoch)
    is_steady = len(passes) == 1 and next(iter(passes)) <= 3
    for number, epoch in enumerate(cut):
        for step in epoch:
            for place, forward in enumerate(step.forwards):
                by_place.setdefault(place if is_steady else 0, []).append(((number, step.run_index), forward))
    return {
        place: _joined(found)
        for place, found in by_place.items()
        if all(each.inputs for _, each in found) and not any(each.is_output for _, each in found)
    }


def share_again(earlier: Sequence[StepTaken], later: Sequence[StepTaken]) -> float:
    """Return the share of the inputs of later steps that are also inputs of earlier ones."""
    ours, theirs = (_joined([((0, 0), each) for each in forwards_in(steps)]) for steps in (earlier, later))
    known, found = ([row.tobytes() for row in items.rounded(ours.median_distance)] for items in (ours, theirs))
    return float(np.isin(found, known).mean())


def drawn_items(ledger: Ledger) -> tuple[Items, Array] | None:
    """Return the items that were drawn from the dataset, with the time in place of the epoch, and their numbers."""
    if not ledger.drawn:
        return None
    numbers = np.concatenate([each.numbers for each in ledger.drawn])
    return _joined([((each.time, 0), each.drawn) for each in ledger.drawn]), numbers


def _joined(passes: Sequence[tuple[Place, ForwardPass]]) -> Items:
    counts = [forward.shape[0] for _, forward in passes]
    is_steady = len({(forward.shape[1:], forward.dtype) for _, forward in passes}) == 1
    features = [features_of(forward) if is_steady else sketches_of(forward) for _, forward in passes]
    return Items(
        np.concatenate([sketches_of(forward) for _, forward in passes]),
        np.concatenate(features),
        np.concatenate([noted_values(forward)[:, : None if is_steady else 0] for _, forward in passes]),
        tuple(target for _, forward in passes for target in targets_of(forward)),
        np.repeat([epoch for (epoch, _), _ in passes], counts),
        np.repeat(np.arange(len(passes)), counts),
        np.repeat([run for (_, run), _ in passes], counts),
    )


def sketches_of(forward: ForwardPass) -> Array:
    """Return the sketch of each item."""
    assert forward.inputs
    return np.frombuffer(forward.inputs.sketches, np.float32).reshape(-1, SKETCH)


def targets_of(forward: ForwardPass) -> list[Any]:
    """Return the target of each item, or a tuple of its targets; None for each if they are not known."""
    items, targets = forward.shape[0], forward.targets or ()
    if len(targets) == items:
        return list(targets)
    if items and targets and len(targets) % items == 0:
        each = len(targets) // items
        return [targets[first : first + each] for first in range(0, len(targets), each)]
    return [None] * items


def noted_values(forward: ForwardPass) -> Array:
    """Return the values that are noted of each item, NaN where they are not; no column for pictures."""
    inputs = forward.inputs
    assert inputs
    found = np.full((forward.shape[0], inputs.width * bool(inputs.rows)), np.nan, np.float32)
    if inputs.rows:
        found[list(inputs.rows)] = np.frombuffer(inputs.values, np.float32).reshape(len(inputs.rows), inputs.width)
    return found


def features_of(forward: ForwardPass) -> Array:
    """Return figures that describe each item: its values, those of a picture's signature, or which tokens it has."""
    inputs, items = forward.inputs, forward.shape[0]
    assert inputs
    sketches = sketches_of(forward)
    if not inputs.width or not inputs.rows:
        pictures = values_of(forward.pictures)
        return pictures if len(pictures) == items else sketches
    values = noted_values(forward)[list(inputs.rows)]
    if forward.dtype.startswith(("int", "uint")):
        values = _words(values)
    elif np.prod(forward.shape[1:]) > inputs.width:
        values = np.concatenate([values, sketches[list(inputs.rows)]], axis=1)
    found = np.full((items, values.shape[1]), np.nan, np.float32)
    found[list(inputs.rows)] = values
    return found


def _words(tokens: Array) -> Array:
    """Return figures of which tokens, and which pairs of neighbours, each row of tokens has; and their weighted sum.

    Each token stands for some random values, always the same ones, which are summed up.
    """
    numbers = tokens.astype(np.int64)
    pairs = numbers[:, :-1] * 1_000_003 + numbers[:, 1:]
    places = np.arange(1, WORDS + 1, dtype=np.int64)
    length = max(1.0, np.sqrt(tokens.shape[1]))

    def summed(of: Array) -> Array:
        mixed = (of[..., None] + 1) * (2_654_435_761 * places + 40_503)
        mixed ^= mixed >> 17
        mixed *= 0x5BD1E995
        mixed ^= mixed >> 15
        return ((mixed & 0xFFFF).astype(np.float32) / 0x8000 - 1).sum(1) / length

    weights = np.sqrt(np.arange(1.0, tokens.shape[1] + 1, dtype=np.float32))
    return np.concatenate([summed(numbers), summed(pairs), (tokens @ weights)[:, None]], axis=1).astype(np.float32)
