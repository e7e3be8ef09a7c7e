"""Those who hear of a training, kept apart from it: what they do is not watched, and does not fail in the script."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils.data import get_worker_info

from workshop.probe import earlier_cells
from workshop.probe.activity import describe_fault
from workshop.probe.listener import Listener, hears, tell
from workshop.probe.log import log


class Handover(Protocol):
    """Replaces what a loop works on; each method returns None to leave it as it is."""

    def batch(self, iterator: Any) -> Any:
        """Return the batch that a DataLoader's iterator hands out."""

    def inputs(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the arguments of a module that the script calls, as a tuple and a dictionary."""

    def targets(self, targets: torch.Tensor) -> torch.Tensor | None:
        """Return the targets of a loss function."""


class _OfThread(threading.local):
    """Of the present thread."""

    depth = 0  # of the blocks that are kept from the script


class Audience:
    """Tells listeners what the script does, in the process that makes it; `with audience:` is for what they do.

    Within such a block the hooks ignore this thread, and an exception ends the watch instead of the script.

    Args:
        listeners: see below.
        on_fault: called after an exception, before the listeners are told.
        on_fork: called in a forked process in which some listeners go on.

    Attributes:
        listeners: who is told.
        handover: replaces batches, inputs and targets by recorded ones; None most of the time.
    """

    def __init__(
        self, listeners: tuple[Listener, ...], on_fault: Callable[[], None], on_fork: Callable[[], None]
    ) -> None:
        self.listeners = listeners
        self.handover: Handover | None = None
        self._on_fault, self._on_fork = on_fault, on_fork
        self._pid = self._seen_pid = os.getpid()
        self._of_thread = _OfThread()
        self._has_begun = False

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Who is told."""
        return self._listeners

    @listeners.setter
    def listeners(self, listeners: tuple[Listener, ...]) -> None:
        self._listeners = listeners
        self._who_hears = {name: [each for each in listeners if hears(each, name)] for name in vars(Listener)}

    def is_script(self) -> bool:
        """Return whether this call is the script's own, and is looked at."""
        return not earlier_cells.are_running and self.is_own()

    def is_own(self) -> bool:
        """Return whether this call is the script's own: not a worker's, the compiler's, or a listener's."""
        if self._of_thread.depth or torch.compiler.is_compiling() or get_worker_info() is not None:
            return False
        return os.getpid() == self._pid or self._goes_on_in_fork()

    def _goes_on_in_fork(self) -> bool:
        """Start over in a forked process and return True, if a listener goes on there."""
        if os.getpid() == self._seen_pid:
            return False
        self._seen_pid = os.getpid()
        with self:
            present = self.listeners
            stay = tuple(each for each in present if each.goes_on_in_fork())
            if self.listeners is present:  # otherwise one of them has begun others
                self.listeners = stay
        if not self.listeners:
            return False
        log("the hooks go on in this forked process")
        self._pid, self._has_begun = os.getpid(), False
        self._on_fork()
        return True

    def tell(self, method: str, *about: Any) -> None:
        """Call a method of each listener that has one of this name."""
        self._of_thread.depth += 1  # as `with self`, in less time
        try:
            if not self._has_begun:
                self._has_begun = True
                tell(self.listeners, "on_begin")
            if fallen := tell(self._who_hears[method], method, *about):
                self.listeners = tuple(each for each in self.listeners if each not in fallen)
        except Exception as error:
            if self._of_thread.depth > 1:  # a listener has told the others, and is told what they cannot do without
                raise
            self._give_up(error)
        finally:
            self._of_thread.depth -= 1

    def __enter__(self) -> None:
        self._of_thread.depth += 1

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        if isinstance(error, Exception):
            self._give_up(error)
        self._of_thread.depth -= 1
        return isinstance(error, Exception)

    def guard(self, do: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a listener's function so that it runs only in the script's own calls and never raises."""

        def guarded(*about: Any) -> Any:
            if self.is_script():
                with self:
                    return do(*about)
            return None

        return guarded

    def handed_over(self, what: str, *about: Any) -> Any:
        """Return what takes the place of a batch, of a module's arguments or of targets; None if nothing does."""
        if self.handover:
            with self:
                return getattr(self.handover, what)(*about)
        return None

    def _give_up(self, error: Exception) -> None:
        """Tell the listeners about a fault of the probe, and leave the script alone from now on."""
        fault = describe_fault(error)
        self.handover = None
        self._on_fault()
        for listener in self.listeners:
            with suppress(Exception):
                listener.on_fault(fault)
        self.listeners = ()
