"""What a DataLoader's worker has: its dataset, what it iterates, and the variables of the user's modules."""

import threading
from typing import Any

from workshop.probe.internals import WORKER_LOOP, frames_of, locals_of
from workshop.probe.memory.holder_names import Variable, user_modules

NO_FRAME = ("", "", 0)


def worker_variables(dataset: Any) -> list[Variable]:
    """Return the variables with which a worker's memory can be reached, from another thread of it."""
    iterated = [Variable("iterator", each, NO_FRAME) for each in _iterated()]
    return [Variable("dataset", dataset, NO_FRAME), *iterated, *user_modules()]


def _iterated() -> list[Any]:
    """The iterator of an iterable dataset, which the worker's loop has in its fetcher."""
    main = threading.main_thread().ident
    loops = [each for each in frames_of(main or 0) if each.f_code.co_name == WORKER_LOOP]
    found = [getattr(locals_of(each).get("fetcher"), "dataset_iter", None) for each in loops]
    return [each for each in found if each is not None]
