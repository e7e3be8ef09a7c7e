"""The phases of a training step, and the clock that cuts it into them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

PHASES = ("data wait", "host-to-device copy", "forward", "backward", "optimizer", "other")

LOSSES = """
cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy
binary_cross_entropy_with_logits gaussian_nll_loss
""".split()
"""In torch.nn.functional, on which the modules rest."""

MOST_KEPT = 8
"""Batches of a DataLoader that are kept to be used again from memory."""

_monotonic = time.monotonic  # the script may replace it


class Phases:
    """Adds up the seconds that the training thread spends in each phase; together they are the wall clock's."""

    def __init__(self) -> None:
        self.synchronize = False
        """Wait for the GPU at each border, so that its work counts to the phase that asked for it."""
        self.restart()

    def restart(self) -> None:
        """Forget all; "other" begins now, and this thread is the one that trains."""
        self.thread = threading.get_ident()
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.stack = ["other"]
        self.since = _monotonic()

    def enter(self, phase: str) -> None:
        """Begin a phase inside the present one."""
        if threading.get_ident() == self.thread:
            self._account()
            self.stack.append(phase)

    def leave(self) -> None:
        """End the present phase."""
        if threading.get_ident() == self.thread:
            self._account()
            if len(self.stack) > 1:
                self.stack.pop()

    def drop(self, phase: str) -> None:
        """End a phase that was left without a word."""
        while self.is_own_thread() and self.stack[-1] == phase:
            self.leave()

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """One phase as a block."""
        self.enter(phase)
        try:
            yield
        finally:
            self.leave()

    def cut(self) -> dict[str, float]:
        """The seconds in each phase since the last cut."""
        self._account()
        seconds, self.seconds = self.seconds, dict.fromkeys(PHASES, 0.0)
        return seconds

    def is_own_thread(self) -> bool:
        """Whether this is the thread that trains."""
        return threading.get_ident() == self.thread

    def _account(self) -> None:
        if self.synchronize:
            torch.cuda.synchronize()
        now = _monotonic()
        self.seconds[self.stack[-1]] += now - self.since
        self.since = now


def names_device(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether a call of `Tensor.to` or `Tensor.cuda` says where to."""
    named = (isinstance(argument, (str, torch.device)) or type(argument) is int for argument in args)
    return function.__name__ == "cuda" or "device" in options or any(named)
