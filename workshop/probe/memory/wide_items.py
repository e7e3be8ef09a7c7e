"""Notes which part of a batch is float64, and the code that makes the items of its dataset."""

from typing import Any
from weakref import ref

import torch
from torch.utils.data import DataLoader

from workshop.probe.event_file import EventFile
from workshop.probe.memory.dataset_attributes import MAX_NESTED
from workshop.probe.memory.memory_notes import WideItems
from workshop.probe.observations import WireFrame

MAX_DEPTH = 3

Way = tuple[str, ...]
"""The keys, or the places, that lead to a part of a batch."""


class WideBatches:
    """Looks at the batches of the DataLoader that was started last, until one has a part of float64."""

    def __init__(self, events: EventFile) -> None:
        self._events = events
        self._dataset: ref[Any] | None = None
        self._is_noted = False

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Get to know the dataset."""
        self._dataset = ref(loader.dataset) if type(loader.dataset).__weakrefoffset__ else None

    def on_batch(self, batch: Any) -> None:
        """Note its part of float64, and where items are made."""
        dataset = self._dataset() if self._dataset else None
        if self._is_noted or dataset is None or (way := way_to_wide(batch)) is None:
            return
        if frame := _made_in(dataset):
            self._is_noted = True
            self._events.write(WideItems, frame=frame, way=way)


def way_to_wide(value: Any, way: Way = ()) -> Way | None:
    """Return the way to the first tensor of float64 in a batch; None without one."""
    if isinstance(value, torch.Tensor):
        return way if value.dtype == torch.float64 else None
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    found = (way_to_wide(part, (*way, str(key))) for key, part in parts if len(way) < MAX_DEPTH)
    return next((each for each in found if each is not None), None)


def _made_in(dataset: Any) -> WireFrame | None:
    """The function that makes an item, of the innermost dataset."""
    for _ in range(MAX_NESTED):
        inner = getattr(dataset, "__dict__", {}).get("dataset")
        if inner is None:
            break
        dataset = inner
    for name in ("__getitem__", "__iter__"):
        code = getattr(getattr(type(dataset), name, None), "__code__", None)
        if code is not None:
            return code.co_name, code.co_filename, code.co_firstlineno
    return None
