"""What each process of a run has done with torch so far: a small file for each that has loaded torch.

It is there before a training sends anything, so that whoever waits for its first step can say what was seen.
"""

import os
import sys
import traceback
from collections import Counter
from contextlib import suppress
from time import monotonic  # the script may replace that of the module
from typing import Any

from workshop.probe import wire
from workshop.probe.internals import is_transformed
from workshop.probe.listener import Listener
from workshop.probe.log import log
from workshop.probe.observations import ProcessActivity

SUFFIX = ".seen"
"""The end of the files' names; the beginning is the process's number."""


class ActivityListener(Listener):
    """Keeps a `ProcessActivity` of this process in a file, usually at most a second old."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._begin()

    def goes_on_in_fork(self) -> bool:
        """Start over: earlier counts belong to the parent process."""
        self._begin()
        return True

    def on_batch(self, batch: Any) -> None:
        """Count a batch."""
        self._count("batches")

    def after_forward(self, module: Any, output: Any) -> None:
        """Count a forward pass."""
        self._count("forwards")
        if is_transformed():
            self._count("transformed")

    def after_backward(self) -> None:
        """Count a backward pass."""
        self._count("backwards")

    def after_optimizer(self, optimizer: Any) -> None:
        """Count an optimizer's step."""
        self._count("optimizer_steps")

    def on_fault(self, fault: str) -> None:
        """Note why nothing more will be seen."""
        self._note(fault)

    def _begin(self) -> None:
        self._counts = Counter[str]()
        self._note()

    def _note(self, fault: str = "") -> None:
        self._noted_s = monotonic()
        note(ProcessActivity(os.getpid(), script_name(), **self._counts, fault=fault), self.folder)

    def _count(self, what: str) -> None:
        self._counts[what] = count = self._counts[what] + 1
        is_power_of_two = not count & (count - 1)
        if is_power_of_two or monotonic() - self._noted_s > 1.0:
            self._note()


def note(activity: ProcessActivity, folder: str) -> None:
    """Keep what was seen, in place of what was seen before."""
    with suppress(OSError):  # the run may be over for whoever watched it
        path = os.path.join(folder, f"{activity.pid}{SUFFIX}")
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(wire.encode(activity))
        os.replace(f"{path}.part", path)


def note_fault(error: Exception, folder: str) -> None:
    """Record a failure from before anything was seen."""
    fault = describe_fault(error)
    if folder:
        note(ProcessActivity(os.getpid(), script_name(), fault=fault), folder)


def describe_fault(error: Exception) -> str:
    """Return an exception of the probe, and where it was raised, in one line; the log has all of it."""
    log("the probe has failed, and leaves this process alone:\n" + "".join(traceback.format_exception(error)))
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}, line {where.lineno})"


def script_name() -> str:
    """Return the name of the file that this process runs."""
    return os.path.basename(str((getattr(sys, "argv", None) or [""])[0])) or "python"
