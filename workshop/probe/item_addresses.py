"""The address of a batch: by which indexes a DataLoader has asked its dataset for the items, and with what seed.

An iterator of a DataLoader asks for indexes in the process of the training, and hands the batches out in the same
order, whoever loads them. Of some batches, the indexes carry a seed: as the dataset goes through them, torch, NumPy and
Python begin to draw anew for each item. Another script's dataset can then draw the same.
"""

import os
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from workshop.probe.event_file import EventFile
from workshop.probe.events import BatchDrawn
from workshop.probe.internals import batches_asked
from workshop.probe.random_states import names_of_states, random_states, seed_generators, set_random_states

_ASKED = "_workshop_asked"

MAX_INDEXES = 4096
"""Indexes of a batch, at most, that are noted."""

_dice = random.SystemRandom()  # the script's own draws stay


@dataclass(frozen=True)
class Address:
    """By which indexes the items of a batch were asked for."""

    indexes: tuple[int, ...]
    dataset: int = 0
    """The number of the dataset: 0 for the first one that was loaded to train on."""
    seed: int | None = None
    """What the draws for the items began with; None if they went on from those before."""


class SeededIndexes(list[int]):
    """The indexes of a batch. Whoever goes through them has the random generators seeded before each of them.

    After the last one, they are seeded once more, for what is drawn for the batch as a whole.
    """

    def __init__(self, indexes: list[int], seed: int) -> None:
        super().__init__(indexes)
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        for index in super().__iter__():
            seed_generators(hash((self.seed, index)))
            yield index
        seed_generators(self.seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return SeededIndexes, (list(super().__iter__()), self.seed)


class Addresses:
    """Notes what DataLoaders ask for.

    Args:
        events: where it is noted from which states of the generators batches are drawn.
        share_seeded: returns which share of the batches gets a seed.
    """

    def __init__(self, events: EventFile | None, share_seeded: Callable[[], float]) -> None:
        self._events, self._share_seeded = events, share_seeded
        self._began: tuple[int, dict[str, int]] = (0, {})  # the process, and the states as the last batch was drawn

    def ask(self, original: Callable[..., Any], iterator: Any) -> Any:
        """An iterator draws the indexes of a batch from its sampler."""
        indexes, asked = original(iterator), _asked(iterator)
        if batches_asked(iterator) == 0:  # one that persists begins another epoch
            asked.clear()
        address = _address(indexes)
        if address and type(indexes) is list and _dice.random() < self._share_seeded():
            seed = _dice.randrange(2**60)
            address, indexes = replace(address, seed=seed), SeededIndexes(indexes, seed)
        asked.append(address)
        return indexes

    def fetch(self, original: Callable[..., Any], fetcher: Any, indexes: Any) -> Any:
        """The items of a batch are loaded; what this process draws afterwards is not touched by their seed."""
        if not isinstance(indexes, SeededIndexes):
            self._note_states()
            return original(fetcher, indexes)
        states = random_states()
        seed_generators(indexes.seed)
        try:
            return original(fetcher, indexes)
        finally:
            set_random_states(states)

    def _note_states(self) -> None:
        """Note from where the last batch was drawn: the states of those generators that have moved since then."""
        (process, before), self._began = self._began, (os.getpid(), names_of_states())
        moved = before.items() - self._began[1].items() if process == os.getpid() else ()
        if self._events and moved:
            self._events.write(BatchDrawn, states=dict(moved))


def next_address(iterator: Any) -> Address | None:
    """Return the address of the batch that an iterator has just handed out; None if it is not known."""
    asked = _asked(iterator)
    return asked.popleft() if asked and getattr(iterator, "_in_order", True) else None


def _asked(iterator: Any) -> deque[Address | None]:
    found: deque[Address | None] = iterator.__dict__.setdefault(_ASKED, deque())
    return found


def _address(indexes: Any) -> Address | None:
    """Return the address that indexes are; None if they are no numbers, as of an iterable dataset."""
    try:
        some = indexes if isinstance(indexes, list | tuple) else [indexes]
        numbers = tuple(index.__index__() for index in some)
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None
    return Address(numbers) if 0 < len(numbers) <= MAX_INDEXES else None
