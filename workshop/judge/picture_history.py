"""The history of a picture: its way from the file to the model, through the transforms that made it.

A picture is followed by its signature, a few of its values. It survives `ToDtype`, `Normalize` and a move to another
process or to the device, which at most scale and shift the values of a channel. Anything else that changes a picture,
such as a crop or an augmentation, is a transform that reports the picture before and after.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from workshop.judge.signatures import Array, Pictures, distance, is_same, line_after, scale_between, unit, values_of
from workshop.probe.events import SAMPLES, PhotoRead, Signatures, SimpleTransform, TransformCall, is_random


@dataclass(frozen=True)
class Link:
    """A transform, or a gap between two of them, that a picture went through."""

    transform: SimpleTransform | None
    """None for a gap."""
    before: Array
    """The signature of what entered it."""
    after: Array

    @property
    def name(self) -> str:
        """The transform's name; empty for a gap."""
        return self.transform.name if self.transform else ""

    @cached_property
    def is_same(self) -> bool:
        """Whether at most the picture's values were scaled and shifted."""
        return is_same(self.before, self.after)


@dataclass(frozen=True)
class Hop:
    """An outermost transform on a picture's way."""

    number: int
    """The number of the transform in the ledger."""
    made: TransformCall
    row: int
    """The picture's index among those that were transformed together."""
    found: Array
    """The signature that the picture was found by afterwards; its values may have been scaled since."""

    @property
    def before(self) -> Array:
        """The signature of the picture that entered the transform."""
        return values_of(self.made.before)[self.row]

    @property
    def after(self) -> Array:
        """The signature of the picture that left it."""
        return values_of(self.made.after)[self.row]

    @property
    def drawn(self) -> list[tuple[str, int]]:
        """The random transforms inside."""
        return [(each.name, self.number) for each in self.made.simple if is_random(each.name)]

    @cached_property
    def links(self) -> list[Link]:
        """Each transform from the first random one on, and the gaps between them, and after the last one."""
        found: list[Link] = []
        last = self.made.decoded
        for each in self.made.simple:
            if last and each.left:
                entered = each.entered or last
                rows = self._row(last), self._row(entered), self._row(each.left)
                found += [Link(None, *rows[:2]), Link(each, *rows[1:])]
                last = each.left
        return [*found, Link(None, self._row(last), self.after)] if last else []

    def _row(self, signatures: Signatures) -> Array:
        return values_of(signatures)[min(self.row, signatures.shape[0] - 1)]

    @property
    def has_gap(self) -> bool:
        """Whether something other than a transform changed the picture between the links."""
        return any(not link.is_same for link in self.links if link.transform is None)

    @property
    def changed_by(self) -> list[str]:
        """The transforms inside, from a random one on if there is one, that do more than scale and shift values."""
        if not self.drawn:
            return [] if is_same(self.before, self.after) else [each.name for each in self.made.simple]
        transforms = (link for link in self.links if link.transform)
        return [each.name for each in transforms if is_random(each.name) or not each.is_same]

    @property
    def lines(self) -> Iterator[Array]:
        """The lines (slope, offset) that scale and shift the values of each channel, the latest first."""
        whole = [] if self.drawn else [Link(None, self.before, self.after)]
        for link in [Link(None, self.after, self.found), *reversed(self.links or whole)]:
            if not is_random(link.name) and link.is_same:
                yield scale_between(link.before, link.after)


@dataclass(frozen=True)
class PictureHistory:
    """The way of a picture into the model."""

    way: Sequence[Hop]
    """The transforms that made it, the latest first; none if no transform is known to have made it."""
    photo: str | None = None
    """The file that it was read from; None if unknown."""
    target: Any = None

    @cached_property
    def simple(self) -> list[SimpleTransform]:
        """The transforms that contain no others, the latest first."""
        return [simple for hop in self.way for simple in reversed(hop.made.simple)]

    @property
    def shared_by(self) -> int:
        """The number of pictures that share one random draw; 1 if each has a draw of its own."""
        return max((hop.made.after.shape[0] for hop in self.way if hop.drawn), default=1)

    @property
    def draws(self) -> set[tuple[str, int, int]]:
        """The random transforms: the name, the number of the event among the ledger's transforms, and the row in it."""
        return {(*draw, hop.row) for hop in self.way for draw in hop.drawn}

    @cached_property
    def augmented(self) -> Sequence[Hop]:
        """The hops from the first random transform on, the latest first."""
        return self.way[: max((place for place, hop in enumerate(self.way, 1) if hop.made.decoded), default=0)]

    @property
    def decoded(self) -> Array | None:
        """The signature of the picture as it entered the first random transform."""
        first = self.augmented[-1] if self.augmented else None
        return unit(values_of(first.made.decoded))[first.row] if first and first.made.decoded else None

    @property
    def decoded_size(self) -> tuple[int, ...] | None:
        """Height and width of the picture as it entered the first random transform."""
        return next((each.before for each in reversed(self.simple) if is_random(each.name)), None)

    @cached_property
    def has_gap(self) -> bool:
        """Whether something other than a torchvision transform has changed the picture."""
        return any(hop.has_gap for hop in self.way)

    @cached_property
    def changed_by(self) -> set[str]:
        """The transforms, from the first random one on, that do more than scale and shift values."""
        return {name for hop in self.augmented for name in hop.changed_by}

    @cached_property
    def scale(self) -> Array | None:
        """Slope and offset by which each channel's values change from the first random transform on."""
        if not self.augmented:
            return None
        same = np.tile(np.array([1.0, 0.0], dtype=np.float32), (len(self.way[0].found) // SAMPLES, 1))
        return reduce(line_after, (line for hop in self.augmented for line in hop.lines), same)


class Histories:
    """Finds the history of a picture in the transforms and reads of a script."""

    def __init__(self, transforms: Sequence[TransformCall], reads: Sequence[PhotoRead]) -> None:
        self._transforms = transforms
        self._made = Pictures((number, unit(values_of(each.after))) for number, each in enumerate(transforms))
        self._taken = Pictures((number, unit(values_of(each.before))) for number, each in enumerate(transforms))
        self.read_for: list[PhotoRead | None] = []
        """For each transform, the photo that its thread opened last, unless an earlier transform used it."""
        opened: dict[tuple[int, int], PhotoRead] = {}
        events: list[PhotoRead | TransformCall] = [*reads, *transforms]
        for event in sorted(events, key=lambda event: event.t):
            if isinstance(event, PhotoRead):
                opened[event.source] = event
            else:
                self.read_for.append(opened.pop(event.source, None))

    def of(self, picture: Array, before: float, target: Any = None) -> PictureHistory:
        """Follow a picture back in time, given its signature and the time when it was used."""
        way = list(self._way(picture, before))
        return PictureHistory(way, self._photo(way) if way else None, target)

    def _way(self, picture: Array, before: float) -> Iterator[Hop]:
        while (number := self._maker(same := unit(picture[None])[0], before)) is not None:
            made = self._transforms[number]
            row = int(np.argmin(distance(unit(values_of(made.after)), same))) if made.before.shape[0] > 1 else 0
            yield Hop(number, made, row, picture)
            picture, before = values_of(made.before)[row], made.t

    def _maker(self, picture: Array, before: float) -> int | None:
        """The latest transform before this time that made the picture, if any."""
        makers = [number for number in self._made.near(picture) if self._transforms[number].t < before]
        return max(makers, default=None)  # transforms are numbered in chronological order

    def _photo(self, way: Sequence[Hop]) -> str | None:
        numbers = [hop.number for hop in reversed(way)]
        if not any(self.read_for[number] for number in numbers):
            # A picture that the script has cached comes back unchanged: look up where it came from the first time.
            numbers = self._taken.near(unit(way[-1].before[None])[0])
        return next((read.photo for number in numbers if (read := self.read_for[number])), None)
