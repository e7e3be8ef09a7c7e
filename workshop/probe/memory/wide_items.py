"""Notes which part of a batch is float64, and the code that makes the items of its dataset."""

from itertools import islice
from typing import Any
from weakref import ref

import torch
from torch.utils.data import DataLoader, default_collate, default_convert

from workshop.probe.event_file import EventFile
from workshop.probe.memory.memory_notes import WideItems
from workshop.probe.memory.variables import innermost_dataset
from workshop.probe.observations import WireFrame
from workshop.probe.user_code import is_user_code

MAX_DEPTH, MAX_PARTS = 3, 32
"""How deep a batch is looked into, and parts of each part, at most."""

MAX_BATCHES = 10
"""Batches, at most, that are looked at."""

Way = tuple[str, ...]
"""The keys, or the places, that lead to a part of a batch."""


class WideBatches:
    """Looks at some batches, until one has a part of float64; of loaders that put items together as they are."""

    def __init__(self, events: EventFile) -> None:
        self._events = events
        self._datasets: dict[int, ref[Any]] = {}
        self._left = MAX_BATCHES

    def on_loader_start(self, loader: DataLoader[Any], number: int) -> None:
        """Get to know the dataset of a DataLoader by its number."""
        if type(loader.dataset).__weakrefoffset__ and loader.collate_fn in (default_collate, default_convert):
            self._datasets[number] = ref(loader.dataset)

    def on_batch(self, batch: Any, number: int) -> None:
        """Note the part of a batch that is float64, and where the items of its DataLoader are made."""
        known = self._datasets.get(number)
        dataset = known() if known and self._left > 0 else None
        if dataset is None:
            return
        self._left -= 1
        if (way := way_to_wide(batch)) is not None and (frame := _made_in(dataset)):
            self._left = 0
            self._events.write(WideItems, frame=frame, way=way)


def way_to_wide(value: Any, way: Way = ()) -> Way | None:
    """Return the way to the first tensor of float64 in a batch; None without one. No code of the user's runs for it."""
    if type(value) is torch.Tensor:
        return way if value.dtype == torch.float64 else None
    if len(way) == MAX_DEPTH or type(value) not in (dict, list, tuple):
        return None
    parts = value.items() if type(value) is dict else enumerate(value)
    found = (way_to_wide(part, (*way, str(key))) for key, part in islice(parts, MAX_PARTS))
    return next((each for each in found if each is not None), None)


def _made_in(dataset: Any) -> WireFrame | None:
    """The user's function that makes an item, of the innermost dataset."""
    dataset = innermost_dataset(dataset)
    for name in ("__getitem__", "__iter__"):
        code = getattr(getattr(type(dataset), name, None), "__code__", None)
        if code is not None and is_user_code(code.co_filename):
            return code.co_name, code.co_filename, code.co_firstlineno
    return None
