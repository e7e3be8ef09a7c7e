"""Calls a function as a process ends, however it was started."""

import atexit
from collections.abc import Callable
from multiprocessing.util import Finalize

from workshop.probe.log import log


def at_process_end(do: Callable[[], None]) -> None:
    """Call a function once as this process ends: one that multiprocessing has forked never comes to `atexit`.

    What fails in the function does not change how the process ends.
    """

    def try_it() -> None:
        try:
            do()
        except Exception as error:
            log(f"at the end of the process: {type(error).__name__}: {error}")

    atexit.register(Finalize(None, try_it, exitpriority=0))
