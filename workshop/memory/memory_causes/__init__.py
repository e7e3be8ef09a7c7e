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
    """Return everything that was found, in order."""
    return in_order(finding for module in MODULES for finding in module.find(measured))
