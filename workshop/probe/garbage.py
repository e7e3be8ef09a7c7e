"""What Python's garbage collector knows: when it looks for garbage, and which objects there are."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, compress, repeat
from typing import Any


@contextmanager
def no_collections() -> Iterator[None]:
    """Keep Python from looking for garbage, and leave it afterwards as it was before."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def all_of(*classes: type) -> list[Any]:
    """Return all objects of some classes, or of classes below them, that the collector knows.

    A tuple that another thread is making must not be held by anybody else meanwhile, or that thread fails with a
    SystemError. So no thread runs while all objects are held: from the list of them to those that are chosen, nothing
    is a step of Python's own code. Each object comes twice, to be asked for its class and to be chosen.

    Args:
        *classes: plain classes: that of an abstract one would run Python's own code for each object.
    """
    twice = chain.from_iterable(map(repeat, chain.from_iterable(map(gc.get_objects, (None,))), repeat(2)))
    with no_collections():
        return list(compress(twice, map(issubclass, map(type, twice), repeat(classes))))
