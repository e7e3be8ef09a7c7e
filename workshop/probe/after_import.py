"""Calls a function as soon as a module is loaded, without loading it."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any


def after_import(name: str, do: Callable[[Any], None]) -> None:
    """Call `do` with the module of that name, once, as soon as it is loaded."""
    if name in sys.modules:
        do(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, do))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module, and has its loader call the function after it has run the module."""

    def __init__(self, name: str, do: Callable[[Any], None]) -> None:
        self.name, self.do = name, do

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module by the finders that remain; this one has done its work."""
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec and spec.loader:
            load = spec.loader.exec_module

            def load_and_do(module: types.ModuleType) -> None:
                load(module)
                self.do(module)

            spec.loader.exec_module = load_and_do  # type: ignore[method-assign]
        return spec
