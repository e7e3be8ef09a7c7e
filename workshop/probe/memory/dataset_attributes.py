"""The attributes of a dataset, and what they contain; nothing here needs torch, which workers are still loading."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

MIN_OBJECTS = 10_000
"""An attribute with so many Python objects is noted for them."""

MAX_NESTED = 5
"""Datasets that are wrapped more often are not looked into."""


def attributes_of(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Yield each attribute of a dataset, and of those that it wraps, with its name."""
    name = "dataset"
    for _ in range(MAX_NESTED):
        values = getattr(dataset, "__dict__", None)
        if not isinstance(values, dict):
            return
        for key, value in list(values.items()):
            yield f"{name}.{key}", value
        dataset, name = values.get("dataset"), f"{name}.dataset"


def owner_of(dataset: Any, name: str) -> Any:
    """Return the dataset that has an attribute by a name that `attributes_of` has yielded."""
    for _ in range(name.count(".") - 1):
        dataset = vars(dataset)["dataset"]
    return dataset


def entries_of(value: Any, most: int) -> list[Any] | None:
    """Return some entries of a container; None for what is no container of Python objects."""
    if isinstance(value, (list, tuple)):
        step = max(len(value) // most, 1)
        return list(value[::step][:most])
    if isinstance(value, dict):
        return [*islice(value.values(), 0, None, max(len(value) // most, 1))][:most]
    if isinstance(value, (set, frozenset)):
        return [*islice(value, most)]
    if getattr(getattr(value, "dtype", None), "hasobject", False) is True:
        step = max(length_of(value) // most, 1)
        return list(value.reshape(-1)[::step][:most]) if hasattr(value, "reshape") else None
    return None


def length_of(value: Any) -> int:
    """Return how many entries a container has."""
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return len(value)  # a tuple may have a field of the name "size"
    size = getattr(value, "size", None)
    return size if isinstance(size, int) else len(value)
