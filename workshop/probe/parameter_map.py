"""Which parameters of one script are which of another that has them in other shapes, such as one for query, key, value.

It follows from their shapes and from the order in which they are defined. Where there are several ways, whoever asks
tries them: the right one gives the same gradients.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, permutations, product
from typing import Any

import torch

from workshop.probe.training_state import some_places

Shape = tuple[int, ...]
Numbered = tuple[int, Shape]

MAX_TENSORS = 4
"""Parameters, at most, of a module that is joined with others like it: an LSTM has four."""

MAX_PERMUTED = 3
"""Modules, at most, that may be joined in any order; more are joined in the order in which they are defined."""

MAX_JOINED = 256
"""Parameters, at most, of all modules that are joined into one."""

MAX_WAYS, MAX_PLACES = 12, 20_000
"""Ways, at most, that are worth trying, and pairs of parameters, at most, that are looked at to find them."""


class UnmappedError(Exception):
    """What belongs to a parameter cannot be given to those that have its values in the other script."""


@dataclass(frozen=True)
class Fold:
    """How a tensor has the values of others: side by side in a dimension, and perhaps with the last two exchanged."""

    whole: Shape
    parts: tuple[Shape, ...]
    fitted: tuple[Shape, ...]
    """The parts without dimensions of one value, but for one where they are stacked."""
    dim: int
    is_turned: bool

    @classmethod
    def of(cls, whole: Shape, parts: Sequence[Shape], is_turned: bool) -> "Fold | None":
        """Return how the parts make the whole; None if they do not."""
        seen = _without_ones(whole)
        if is_turned and len(seen) < 2:
            return None
        if is_turned:
            seen = (*seen[:-2], *reversed(seen[-2:]))
        plain = map(_without_ones, parts)
        fitted = tuple((1, *each) if len(each) == len(seen) - 1 else each for each in plain)
        if len(parts) == 1:
            return cls(whole, tuple(parts), fitted, 0, is_turned) if fitted[0] == seen else None
        for dim, size in enumerate(seen):
            is_alike = all(_without(each, dim) == _without(seen, dim) and len(each) == len(seen) for each in fitted)
            if is_alike and sum(each[dim] for each in fitted) == size:
                return cls(whole, tuple(parts), fitted, dim, is_turned)
        return None

    def split(self, whole: torch.Tensor) -> list[torch.Tensor]:
        """Return the parts."""
        seen = whole.squeeze().mT if self.is_turned else whole.squeeze()
        pieces = seen.split([each[self.dim] for each in self.fitted], self.dim) if len(self.parts) > 1 else [seen]
        return [piece.reshape(shape).contiguous() for piece, shape in zip(pieces, self.parts, strict=True)]

    def join(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the whole."""
        pieces = [each.reshape(shape) for each, shape in zip(parts, self.fitted, strict=True)]
        seen = torch.cat(pieces, self.dim) if len(pieces) > 1 else pieces[0]
        return (seen.mT if self.is_turned else seen).reshape(self.whole).contiguous()


def _without_ones(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


def _without(shape: Shape, dim: int) -> Shape:
    return (*shape[:dim], *shape[dim + 1 :])


@dataclass(frozen=True)
class Counterpart:
    """A parameter of one script, and those of the other that have its values, by their numbers."""

    fold: Fold
    whole: int
    parts: tuple[int, ...]
    is_theirs: bool
    """Whether the whole is the other script's."""

    @property
    def theirs(self) -> tuple[int, ...]:
        """The numbers of the other script's parameters."""
        return (self.whole,) if self.is_theirs else self.parts

    @property
    def ours(self) -> tuple[int, ...]:
        """The numbers of this script's."""
        return self.parts if self.is_theirs else (self.whole,)

    def carried(self, things: Sequence[Any]) -> list[Any]:
        """Return what belongs to each of ours, given that of each of theirs: tensors of its shape, or what all share.

        Raises:
            UnmappedError: they share nothing, or have a tensor of another shape.
        """
        shapes = [self.fold.whole] if self.is_theirs else self.fold.parts
        tensors = [each for each, shape in zip(things, shapes, strict=True) if _has_shape(each, shape)]
        if tensors:
            filled = [
                tensors[0].new_zeros(shape) if each is None else each
                for each, shape in zip(things, shapes, strict=True)
            ]
            return self.fold.split(filled[0]) if self.is_theirs else [self.fold.join(filled)]
        is_large = any(isinstance(each, torch.Tensor) and each.numel() > 1 for each in things)
        if is_large or any(bool(each != things[0]) for each in things[1:]):
            raise UnmappedError("its optimizer has a state or settings that do not fit the original's parameters")
        return [things[0]] * len(self.ours)


def _has_shape(thing: Any, shape: Shape) -> bool:
    return isinstance(thing, torch.Tensor) and thing.shape == shape


@dataclass(frozen=True)
class ParameterMap:
    """One way in which this script's parameters may be made of another's."""

    counterparts: Sequence[Counterpart]

    @property
    def is_plain(self) -> bool:
        """Whether each parameter is that of the same number, as it is."""
        return all(
            each.theirs == each.ours and each.fold.parts == (each.fold.whole,) and not each.fold.is_turned
            for each in self.counterparts
        )

    def translated(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a recorded step as if this script had recorded it.

        Raises:
            UnmappedError: its optimizer's state or settings cannot be given to our parameters.
        """
        if self.is_plain:
            return record
        before = record["before"]
        numbers = range(len(before["parameters"]))
        parameters = self._of_each([{"": each} for each in before["parameters"]])
        state = self._of_each(before["state"])
        settings = self._of_each([record["settings"].get(number, {}) for number in numbers])
        gradients = self._of_each([dict(enumerate(record["gradients"].get(number, ()))) for number in numbers])
        after = self._of_each(list(map(_with_places, before["parameters"], record["after"])))
        places = [each.pop("places").flatten().nonzero().flatten() for each in after]
        return record | {
            "before": before | {"parameters": [each[""] for each in parameters], "state": state},
            "settings": {number: each for number, each in enumerate(settings) if each},
            "gradients": {number: list(each.values()) for number, each in enumerate(gradients) if each},
            "places": places,
            "after": [
                {name: each.flatten()[known] if each.numel() > 1 else each for name, each in values.items()}
                for values, known in zip(after, places, strict=True)
            ],
        }

    def _of_each(self, things: Sequence[Mapping[Any, Any]]) -> list[dict[Any, Any]]:
        """Return what belongs to each of our parameters, by its name, given what belongs to theirs."""
        found: dict[int, dict[Any, Any]] = {number: {} for one in self.counterparts for number in one.ours}
        for one in self.counterparts:
            of_theirs = [things[number] for number in one.theirs]
            for name in dict.fromkeys(name for each in of_theirs for name in each):
                carried = one.carried([each.get(name) for each in of_theirs])
                for number, value in zip(one.ours, carried, strict=True):
                    found[number][name] = value
        return [found[number] for number in sorted(found)]


def _with_places(parameter: torch.Tensor, some: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return some values of a parameter, and of the optimizer's state for it, at their "places" in its shape."""
    places = some_places(parameter)
    values = {name: each for name, each in some.items() if len(each) == len(places)}
    values["places"] = torch.ones(len(places), dtype=torch.bool, device=parameter.device)
    return {**some} | {
        name: each.new_zeros(parameter.numel()).index_put((places,), each).reshape(parameter.shape)
        for name, each in values.items()
    }


@dataclass(frozen=True)
class _Group:
    """A module, and those of the other script that are joined into it: the number and the shape of each parameter."""

    whole: Sequence[Numbered]
    parts: Sequence[Sequence[Numbered]]
    is_theirs: bool

    @property
    def kind(self) -> str:
        """What it has in common with groups that are joined in the same way."""
        return repr([[shape for _, shape in each] for each in (self.whole, *self.parts)])

    @property
    def orders(self) -> list[tuple[Sequence[Numbered], ...]]:
        """The orders in which the modules may be joined."""
        return list(permutations(self.parts)) if len(self.parts) <= MAX_PERMUTED else [tuple(self.parts)]

    def counterparts(self, order: Sequence[Sequence[Numbered]], is_turned: bool) -> list[Counterpart]:
        """Return how they are joined in an order, turned or not where both can be; empty if they cannot be joined."""
        found = []
        for (number, shape), of_parts in zip(self.whole, zip(*order, strict=True), strict=True):
            numbers, shapes = zip(*of_parts, strict=True)
            fold = Fold.of(shape, shapes, is_turned) or Fold.of(shape, shapes, not is_turned)
            if fold is None:
                return []
            found.append(Counterpart(fold, number, numbers, self.is_theirs))
        return found


def maps_of(theirs: Sequence[Shape], ours: Sequence[Shape]) -> Iterator[ParameterMap]:
    """Yield ways in which our parameters may be made of theirs, given the shapes of all, the likeliest one first.

    All modules of a kind are joined in the same order, and all matrices are turned where they can be, or only where
    they must be.
    """
    groups = _groups(list(enumerate(theirs)), list(enumerate(ours)))
    counts = {group.kind: range(len(group.orders)) for group in groups}
    maps: list[ParameterMap] = []
    choices = product(product(*counts.values()), (False, True))
    for choice, is_turned in islice(choices, MAX_WAYS if groups else 0):
        chosen = dict(zip(counts, choice, strict=True))
        made = [group.counterparts(group.orders[chosen[group.kind]], is_turned) for group in groups]
        if (found := ParameterMap(list(chain(*made)))) not in maps:
            maps.append(found)
            yield found


def _groups(theirs: Sequence[Numbered], ours: Sequence[Numbered]) -> list[_Group]:
    """Find which parameters belong together; an empty list if that is not found.

    Where modules are defined in another order, parameters of a shape that both scripts have as often are set aside.
    """
    if found := _aligned(theirs, ours):
        return found
    counts, others = (Counter(shape for _, shape in each) for each in (theirs, ours))
    rest, of_ours = ([each for each in of if counts[each[1]] != others[each[1]]] for of in (theirs, ours))
    common = [
        sorted((each for each in of if counts[each[1]] == others[each[1]]), key=lambda each: each[1])
        for of in (theirs, ours)
    ]
    found = _aligned(rest, of_ours)
    return found + _pairs(*common) if found or not (rest or of_ours) else []


def _pairs(theirs: Sequence[Numbered], ours: Sequence[Numbered]) -> list[_Group]:
    return [_Group([one], [[other]], True) for one, other in zip(theirs, ours, strict=True)]


def _aligned(theirs: Sequence[Numbered], ours: Sequence[Numbered]) -> list[_Group]:
    """Divide the parameters of both scripts into groups, in their order; return an empty list if that cannot be."""
    if _values_in(theirs) != _values_in(ours):
        return []
    if [shape for _, shape in theirs] == [shape for _, shape in ours]:
        return _pairs(theirs, ours)
    seen: set[tuple[int, int]] = set()
    ahead: list[tuple[int, int, list[_Group]]] = [(0, 0, [])]  # a place in each list, and the groups before it
    while ahead and len(seen) < MAX_PLACES:
        of_theirs, of_ours, before = ahead.pop()
        one, other = theirs[of_theirs : of_theirs + MAX_JOINED], ours[of_ours : of_ours + MAX_JOINED]
        if not one and not other:
            return before
        if (of_theirs, of_ours) not in seen:
            seen.add((of_theirs, of_ours))
            for group in reversed([*_next_groups(one, other, True), *_next_groups(other, one, False)]):
                taken = [len(group.whole), sum(map(len, group.parts))][:: 1 if group.is_theirs else -1]
                ahead.append((of_theirs + taken[0], of_ours + taken[1], [*before, group]))
    return []


def _next_groups(wholes: Sequence[Numbered], parts: Sequence[Numbered], is_theirs: bool) -> Iterator[_Group]:
    """Yield the groups that may come next: modules of up to so many parameters, of which some are joined into one."""
    for tensors in range(1, MAX_TENSORS + 1):
        whole, modules = wholes[:tensors], [parts[n : n + tensors] for n in range(0, len(parts), tensors)]
        sums = list(accumulate(_values_in(each) for each in modules))
        wanted = _values_in(whole)
        if wanted in sums and len(whole) == tensors:
            count = sums.index(wanted) + 1
            group = _Group(whole, modules[:count], is_theirs)
            is_new = count > 1 or (tensors == 1 and is_theirs)
            if is_new and all(len(each) == tensors for each in group.parts) and group.counterparts(group.parts, False):
                yield group


def _values_in(parameters: Sequence[Numbered]) -> int:
    return sum(math.prod(shape) for _, shape in parameters)
