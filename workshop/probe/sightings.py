"""What the processes of a run were seen doing: a small file for each that has loaded torch.

It is there before a training sends anything, so that whoever waits for it can say what was seen in its place.
"""

import os
import sys
import traceback
from contextlib import suppress

from workshop.probe import wire
from workshop.probe.log import log
from workshop.probe.observations import Sighting

SUFFIX = ".seen"
"""The end of the files' names; the beginning is the process's number."""


def note(sighting: Sighting, folder: str) -> None:
    """Keep what was seen, in the place of what was seen before."""
    with suppress(OSError):  # the run may be over for whoever watched it
        path = os.path.join(folder, f"{sighting.pid}{SUFFIX}")
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(wire.encode(sighting))
        os.replace(f"{path}.part", path)


def note_fault(error: Exception, folder: str) -> None:
    """Keep what has failed before anything was seen."""
    fault = describe_fault(error)
    if folder:
        note(Sighting(os.getpid(), script_name(), fault=fault), folder)


def describe_fault(error: Exception) -> str:
    """Return an exception of the probe, and where it was raised, in one line; the log has all of it."""
    log("the probe has failed, and leaves this process alone:\n" + "".join(traceback.format_exception(error)))
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}, line {where.lineno})"


def script_name() -> str:
    """Return the name of the file that this process runs."""
    return os.path.basename(str((getattr(sys, "argv", None) or [""])[0])) or "python"
