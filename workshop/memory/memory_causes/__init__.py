"""Finds the causes in what was measured of a script's memory: each module here is about one place where memory goes.

A module declares a `MemoryCause` for each thing that it finds, and its `find` yields them. To be here is enough.
"""

from importlib import import_module
from pkgutil import iter_modules

from workshop.diagnosis.findings import in_order
from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_run import MeasuredMemory

MODULES = [import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__)]


def memory_causes() -> list[MemoryCause]:
    """Return every cause that is looked for."""
    return [value for module in MODULES for value in vars(module).values() if isinstance(value, MemoryCause)]


def memory_findings(measured: MeasuredMemory) -> list[MemoryFinding]:
    """Return everything that was found, in order; what grows because of views is told as views."""
    found: list[MemoryFinding] = [finding for module in MODULES for finding in module.find(measured)]
    of_views = {each.holder for each in found if each.cause == "views-kept"}
    return in_order(each for each in found if each.cause != "outputs-kept" or each.holder not in of_views)
