"""A limit for what may take minutes, and has no limit of its own."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TooLongError(BaseException):
    """What was inside of a time limit has taken longer. It passes by those who catch any `Exception`."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise an exception in what is inside once it has taken so long; a call that is no Python code is waited for.

    Raises:
        TooLongError: it has taken longer.
    """
    thread, lock, is_over, is_late = threading.get_ident(), threading.Lock(), False, False

    def interrupt() -> None:
        nonlocal is_late
        with lock:
            if not is_over:
                is_late = True
                _raise_in(thread, TooLongError)

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except BaseException as error:
        if is_late:  # whatever the code that was interrupted has made of it
            raise TooLongError from error
        raise
    finally:
        with lock:
            is_over = True
            timer.cancel()
            if is_late:
                _raise_in(thread, None)  # it may not have come yet, and must not come later


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Have an exception raised in a thread, or take it back, if it was not raised yet."""
    what = ctypes.py_object(kind) if kind else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)
