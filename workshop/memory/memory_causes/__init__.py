"""Finds the causes in what was measured of a script's memory: each module here is about one place where memory goes."""

from workshop.diagnosis.findings import in_order
from workshop.memory.memory_causes import arrays, containers, growing, peaks, validation, workers
from workshop.memory.memory_findings import MemoryFinding
from workshop.memory.memory_run import MeasuredMemory

ALL = (growing.find, containers.find, arrays.find, peaks.find, validation.find, workers.find)


def memory_findings(measured: MeasuredMemory) -> list[MemoryFinding]:
    """Return everything that was found, in order; what grows because of views is told as views."""
    found = [finding for find in ALL for finding in find(measured)]
    of_views = {each.holder for each in found if each.cause == "views-kept"}
    return in_order([each for each in found if each.cause != "outputs-kept" or each.holder not in of_views])
