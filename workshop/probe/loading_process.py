"""A process that loads batches for a trial, one at a time as it is asked, and is thrown away in the end."""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch

from workshop.probe import event_file
from workshop.probe.connection import moved_up

ASK, LOADED, USED_UP, FAILED = b"?", b"1", b"0", b"!"
"""What is asked, and the first byte of an answer; an error follows the last one."""

MAX_ANSWER = 4000
"""Bytes, at most, of an answer: it is read in one piece."""


class LoadingProcess:
    """A forked process that loads a batch whenever it is asked to, and keeps none of them.

    Whatever a dataset changes as it loads, such as a file that it opens, a cache that it fills, or a generator that it
    draws from, it changes there. It computes with one thread, as a DataLoader's worker does: after a fork, the others
    are missing.

    Args:
        begin: called in the process: returns the batches.

    Raises:
        OSError: no process can be forked.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]]) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # else what is still to be written would be written twice
                stream.flush()
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        self._parent, self._pid = os.getpid(), os.fork()
        if not self._pid:
            try:
                os.close(self._orders)
                os.close(self._answers)
                _serve(begin, orders, answers)
            finally:
                os._exit(0)  # nothing that the script has registered for its end
        os.close(orders)
        os.close(answers)
        self._orders, self._answers = moved_up(self._orders), moved_up(self._answers)

    def load(self, timeout_s: float) -> bool:
        """Wait until a batch has been loaded; return False if there is none any more.

        Raises:
            RuntimeError: it could not be loaded, or not in this time.
        """
        os.write(self._orders, ASK)
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        if not poll.poll(1000 * timeout_s):
            raise RuntimeError(f"no batch was loaded in {timeout_s:.0f} s")
        answer = os.read(self._answers, MAX_ANSWER)
        if answer[:1] not in (LOADED, USED_UP):
            raise RuntimeError(answer[1:].decode(errors="replace") or "the process that loads has ended")
        return answer == LOADED

    def end(self) -> None:
        """End the process; a forked process that has inherited this object has nothing to end."""
        if os.getpid() != self._parent:
            return
        with suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._orders)
        os.close(self._answers)


def _serve(begin: Callable[[], Iterator[Any]], orders: int, answers: int) -> None:
    """Load a batch for each order, until nobody is left who could ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the script ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    event_file.mute()
    try:
        torch.set_num_threads(1)
        batches = begin()
        while os.read(orders, len(ASK)):
            is_there = next((True for _ in batches), False)
            os.write(answers, LOADED if is_there else USED_UP)
    except BaseException as error:  # datasets fail in many ways, and may call sys.exit
        os.write(answers, FAILED + last_line(error).encode()[: MAX_ANSWER - 1])


def last_line(error: BaseException) -> str:
    """Return the last line of what an error says, or else its name: one of a worker has its traceback above."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
