"""Makes the inputs of a recorded step anew from the addresses of its batches, and compares what has entered the models.

The dataset of the script that runs here gives the items, in a forked worker, and its own loop makes of them what enters
its models. Where the draws were seeded and come in the same order, the inputs are the same. Where they are others, they
are compared with several draws of the same items.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from workshop.probe.batch_use import is_same
from workshop.probe.internals import names_of, tree_flatten
from workshop.probe.item_addresses import SeededIndexes
from workshop.probe.item_draws import load_apart
from workshop.probe.messages import Likeness, MadeAnew
from workshop.probe.open_handles import why_not_forked

SAME = 1e-3
"""Error, at most, of an item that is the same, relative to how much the values of the batch vary."""

OF_LOSS, OF_BATCH = -1, -2
"""What stands in place of a model's number for the targets of a loss, and for other tensors of a batch."""

ROUNDED = 0.03
"""Share of the deviation of all values by which what was kept as bytes may be off; of photos it is 0.01."""

MAX_OTHERS = 32
"""Items of a batch, at most, that each of them is compared with."""

MAX_WIDTH = 512
"""Values, at most, of each input of an item that are compared."""

Addresses = Sequence[tuple[int, Sequence[int], int | None]]
"""Of each batch of a step: the number of its dataset, the indexes, and the seed."""


@dataclass
class Entered:
    """What has entered the models in a step, then the losses."""

    inputs: list[tuple[int, list[torch.Tensor | None]]] = field(default_factory=list)
    """The number of the model, or `OF_LOSS` or `OF_BATCH`, and its tensors; None for what has gradients."""

    def with_as_many_as(self, other: "Entered") -> "Entered":
        """Return this without arguments that come after those which the same call has there."""
        calls = zip(self.inputs, other.inputs, strict=False)
        shorter = [(number, tensors[: len(others)]) for (number, tensors), (_, others) in calls]
        return Entered([*shorter, *self.inputs[len(shorter) :]])

    @property
    def shapes_of_losses(self) -> list[Any]:
        """The shapes of all targets."""
        of_losses = [tensors for number, tensors in self.inputs if number == OF_LOSS]
        return [None if each is None else each.shape for tensors in of_losses for each in tensors]

    @property
    def without_losses(self) -> "Entered":
        """This without targets."""
        return Entered([each for each in self.inputs if each[0] != OF_LOSS])

    @property
    def kinds(self) -> list[Any]:
        """What must be the same of two steps to be compared."""
        return [(number, None if each is None else (each.dtype, each.ndim)) for number, each in self._numbered]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All of them."""
        return [each for _, each in self._numbered if each is not None]

    @property
    def _numbered(self) -> list[tuple[int, torch.Tensor | None]]:
        return [(number, each) for number, tensors in self.inputs for each in tensors]


def remade(
    loaders: Mapping[int, DataLoader[Any]], addresses: Addresses, draws: Sequence[int]
) -> list[tuple[Any, ...]] | None:
    """Return, draw by draw, the batches of these addresses; the draw 0 begins with the recorded seeds.

    One worker makes all draws of a batch, so that a generator of the dataset's own draws others each time. None if this
    script's DataLoaders cannot make them.
    """
    batches = []
    for number, indexes, seed in addresses:
        loader = loaders.get(number)
        if loader is None or isinstance(loader.dataset, IterableDataset) or why_not_forked(loader):
            return None
        seeded = [SeededIndexes(list(indexes), (seed or 0) + draw) for draw in draws]
        batches.append(list(load_apart(loader, seeded)))
    return list(zip(*batches, strict=True))


def compared(addresses: Addresses, recorded: Entered, draws: Sequence[Entered], by_chance: float) -> MadeAnew:
    """Compare what entered the models in a recorded step with what entered here, in the first draw and in others.

    `by_chance` is the chance that the batches themselves would be as much alike if they were of other items.
    """
    if recorded.shapes_of_losses != draws[0].shapes_of_losses:  # as of a head that computes what the loss looks at
        recorded, *draws = (each.without_losses for each in (recorded, *draws))
    first, others = draws[0], draws[1:]
    recorded = recorded.with_as_many_as(first)
    if recorded.kinds != first.kinds:
        return MadeAnew(error="other numbers of inputs enter the models")
    if any(one.shape != other.shape for one, other in zip(recorded.tensors, first.tensors, strict=True)):
        return MadeAnew(error="inputs of other shapes enter the models")
    sizes = [len(indexes) for _, indexes, _ in addresses]
    batches = [list(_by_batch(each.tensors, sizes)) for each in (recorded, *draws)]
    same = [_same_rows(one, other) for one, other in zip(batches[0], batches[1], strict=True)]
    found = MadeAnew(items=sum(map(len, same)), same=int(sum(map(torch.sum, same))))
    if not others or any(each.kinds != first.kinds for each in others):
        return found
    likenesses = [likeness for of_draws in zip(batches[0], *batches[2:], strict=True) for likeness in _ranks(of_draws)]
    varies = any(not bool(_same_rows(batches[1][0], other[0]).all()) for other in batches[2:])
    chances = itertools.starmap(_chance_if_others, zip(batches[0], batches[1], strict=True))
    in_part, fixed = map(sum, zip(*itertools.starmap(_in_parts, zip(*batches, strict=True)), strict=True))
    errors = torch.cat(list(itertools.starmap(_errors, zip(batches[0], batches[1], strict=True))))
    nearest = torch.cat(list(itertools.starmap(_nearest, zip(*batches, strict=True)))) | torch.cat(same)
    return MadeAnew(
        items=found.items,
        same=found.same,
        is_seeded=all(seed is not None for _, _, seed in addresses),
        nearest=int(nearest.sum()),
        errors=errors[~torch.cat(same)].tolist(),
        in_part=in_part,
        others=fixed,
        varies=varies,
        by_chance=min(by_chance, *chances),
        likenesses=likenesses,
    )


Rows = list[torch.Tensor]
"""Of some items, the values of each input: a row for each item."""


def _by_batch(tensors: Sequence[torch.Tensor], sizes: Sequence[int]) -> Iterator[Rows]:
    """Yield the inputs of each batch, item by item; of what is not divided into items, all as one item."""
    each = len(tensors) // len(sizes)
    for number, size in enumerate(sizes):
        of_batch = tensors[number * each : (number + 1) * each] if len(tensors) == each * len(sizes) else tensors
        are_items = [tensor.ndim > 0 and len(tensor) == size for tensor in of_batch]
        if any(are_items):
            yield [_values(each, size) for each, is_item in zip(of_batch, are_items, strict=True) if is_item]
        else:
            yield [_values(each, 1) for each in of_batch]


def _values(tensor: torch.Tensor, items: int) -> torch.Tensor:
    plain = tensor.detach().as_subclass(torch.Tensor)
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    plain = torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
    return plain.reshape(items, -1).to("cpu", torch.float64)


def _same_rows(one: Rows, other: Rows) -> torch.Tensor:
    """Return of which items all inputs are the same but for rounding."""
    found = torch.ones(len(one[0]), dtype=torch.bool)
    for ours, theirs in zip(one, other, strict=True):
        if ours.shape != theirs.shape:
            return torch.zeros(len(one[0]), dtype=torch.bool)
        found &= _is_same(ours, theirs)
    return found


def _in_parts(recorded: Rows, first: Rows, *others: Rows) -> tuple[int, int]:
    """Count the items of which some inputs are the same, as `MadeAnew` has them: in part, and of another item."""
    drawn, redrawn, fixed = (torch.zeros(len(recorded[0]), dtype=torch.bool) for _ in range(3))
    for ours, theirs, *draws in zip(recorded, first, *others, strict=True):
        if any(each.shape != theirs.shape for each in (ours, *draws)):
            continue
        is_other, varies = ~_is_same(ours, theirs), ~torch.stack([_is_same(theirs, each) for each in draws]).all(0)
        if varies.any():
            drawn, redrawn = drawn | ~is_other & varies, redrawn | is_other
        else:
            fixed = fixed | is_other
    return int((drawn & redrawn).sum()), int(fixed.sum())


def _is_same(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    scale = ours - ours.mean()
    allowed = SAME * float(scale.square().mean().sqrt()) + 1e-6 * float(ours.abs().max())
    return (ours - theirs).square().mean(1).sqrt() <= allowed


def _errors(recorded: Rows, first: Rows) -> torch.Tensor:
    """Return how far each item is off: of the input that is off most, relative to the deviation of all its values."""
    pairs = [(ours, theirs) for ours, theirs in zip(recorded, first, strict=True) if ours.shape == theirs.shape]
    off = [
        (ours - theirs).square().mean(1).sqrt() / theirs.std(correction=0).clamp_min(1e-12) for ours, theirs in pairs
    ]
    return torch.stack([*off, torch.zeros(len(first[0]), dtype=torch.float64)]).amax(0)


def _nearest(recorded: Rows, *draws: Rows) -> torch.Tensor:
    """Return which items are nearer to the first draw than to any other, whatever their values are scaled to."""
    apart = []
    for draw in draws:
        both = [map(_centred, each) for each in zip(_alike([recorded, draw])[0], draw, strict=True)]
        apart.append(sum((one - other).square().mean(1) for one, other in both))
    first, *others = apart
    return first < torch.stack(others).amin(0)


def _centred(values: torch.Tensor) -> torch.Tensor:
    return (values - values.mean()) / values.std(correction=0).clamp_min(1e-12)


def _chance_if_others(one: Rows, other: Rows) -> float:
    """Return the chance that the inputs would be as much alike if they were of other items."""
    return min(chance_if_others(*each) for each in zip(one, other, strict=True))


def chance_if_others(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Return the chance that all rows would be the same, as they are, if they were of other items; else 1."""
    items = len(ours)
    if ours.shape != theirs.shape or items < 2 or not bool(_is_same(ours, theirs).all()):
        return 1.0
    return max(float(_is_same(ours, theirs.roll(1, 0)).float().mean()), 1 / items) ** items


def chance_of_batches(recorded: Sequence[Mapping[str, Any]], batches: Sequence[Any]) -> float:
    """Return the chance that the recorded batches would be as much like those made anew if they were of other items."""
    chances = (
        chance_if_others(_values(other, len(other)), _values(leaf, len(leaf)))
        for leaves, batch in zip(recorded, batches, strict=False)
        for other, leaf in _in_both(leaves, batch).values()
    )
    return min(chances, default=1.0)


def used_otherwise(recorded: Mapping[str, Any], batch: Any, entered: Entered) -> list[str]:
    """Return the names of the tensors of a batch that enter neither a model nor a loss of torch, as they are."""
    return [
        name
        for name, (_, leaf) in _in_both(recorded, batch).items()
        if not any(is_same(leaf, each) for each in entered.tensors)
    ]


def with_leaves(entered: Entered, leaves: Mapping[str, Any], names: Sequence[str]) -> Entered:
    """Return what has entered, and these tensors of the batch beside it."""
    return Entered([*entered.inputs, *((OF_BATCH, [leaves[name]]) for name in names)])


def leaves_of(batch: Any) -> dict[str, Any]:
    """Return what is in a batch, by name."""
    own, places = tree_flatten(batch)
    return dict(zip(names_of(places), own, strict=True))


def _in_both(recorded: Mapping[str, Any], batch: Any) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return the tensors that are alike in a recorded batch and in one that was made anew."""
    found = {}
    for name, leaf in leaves_of(batch).items():
        other = recorded.get(name)
        if not (isinstance(leaf, torch.Tensor) and isinstance(other, torch.Tensor) and leaf.ndim):
            continue
        if (leaf.shape, leaf.dtype) == (other.shape, other.dtype):
            found[name] = other, leaf
    return found


def _ranks(draws: Sequence[Rows]) -> list[Likeness]:
    """Return, look by look, how far each draw of the same items is from all others: its rank, on the average."""
    found = []
    for name, look in _looks([_thinned(rows) for rows in _alike(draws)]).items():
        apart = torch.stack([(look - each).abs().mean(2) for each in look]).sum(0)  # (draws, items)
        ranks = (apart[:, None] > apart).double().sum(1) + ((apart[:, None] == apart).double().sum(1) - 1) / 2
        found.append(Likeness(name, len(ranks[0]), ranks.mean(1).tolist()))
    return found


def _alike(draws: Sequence[Rows]) -> list[Rows]:
    """Return the inputs with rows of the same length in all draws."""
    widths = [min(rows.shape[1] for rows in each) for each in zip(*draws, strict=True)]
    return [[rows[:, :width] for rows, width in zip(draw, widths, strict=True)] for draw in draws]


def _thinned(rows: Rows) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return some values of each input, and the steps from these to the next ones."""
    found = []
    for each in rows:
        width = each.shape[1]
        places = torch.arange(min(width, MAX_WIDTH)) * width // min(width, MAX_WIDTH)
        following = (places + 1).clamp_max(width - 1)
        found.append((each[:, places], each[:, following] - each[:, places]))
    return found


def _looks(draws: Sequence[list[tuple[torch.Tensor, torch.Tensor]]]) -> dict[str, torch.Tensor]:
    """Return what is compared of each draw and item, (draws, items, values): standardised, input by input."""
    values = [torch.stack([each[0] for each in of_input]) for of_input in zip(*draws, strict=True)]
    steps = [torch.stack([each[1] for each in of_input]) for of_input in zip(*draws, strict=True)]
    looks = {"values": values, "steps": steps}
    looks |= {f"sizes of {name}": [each.sort(2).values for each in some] for name, some in looks.items()}
    looks["differences between items"] = [each - each.roll(1, 1) for each in values]
    looks["distances between items"] = [torch.cdist(each, each).sort(2).values for each in values]
    looks["values that items share"] = [_equal(each).sort(2).values for each in values]
    pairs = [(one, other) for one, other in itertools.combinations(values, 2) if one.shape == other.shape]
    looks["differences between inputs"] = [one - other for one, other in pairs[:6]]
    return {name: torch.cat([_standard(each) for each in some], 2) for name, some in looks.items() if some}


def _equal(values: torch.Tensor) -> torch.Tensor:
    """Return which share of its values each item has in common with some of the same draw: but for rounding, if any."""
    others, is_whole = values[:, :MAX_OTHERS, None], bool((values == values.round()).all())
    rounding = 0.0 if is_whole else ROUNDED * float(values.std(correction=0))
    shared = [(others[:, number] - values).abs() <= rounding for number in range(others.shape[1])]
    return torch.stack([each.double().mean(2) for each in shared], 2)


def _standard(values: torch.Tensor) -> torch.Tensor:
    return values / values.std(correction=0).clamp_min(1e-12)
