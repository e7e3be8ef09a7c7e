"""The cells of a session that run before the one that is looked at: what they train is not taken for its training.

The probe is in place while they run, as names such as `cross_entropy` are imported in them, and models are made; but it
looks away. So it does in the processes that they start.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

VARIABLE = "WORKSHOP_EARLIER_CELLS"
"""The environment variable that processes have which such a cell starts."""

are_running = False
"""Whether they are, in this process."""

_when_over: list[Callable[[], None]] = []


def when_over(do: Callable[[], None]) -> None:
    """Have something done once they have run."""
    _when_over.append(do)


@contextmanager
def unseen() -> Iterator[None]:
    """Have the probe look away from what runs in this block."""
    global are_running
    are_running = True
    os.environ[VARIABLE] = "1"
    yield  # after an exception the process ends, and was not looked at
    are_running = False
    del os.environ[VARIABLE]
    for each in _when_over:
        each()
