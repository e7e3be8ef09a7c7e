"""What is done beside something else, again and again."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def again_and_again(do: Callable[[], object], every_s: float) -> Iterator[None]:
    """Call a function in a thread of its own, with so many seconds in between, until the block ends."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(every_s):
            do()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
