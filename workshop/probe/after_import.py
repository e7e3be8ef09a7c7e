"""Calls a function as soon as a module has run, without loading it."""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any


def after_import(name: str, do: Callable[[Any], None]) -> None:
    """Call `do` with the module of that name, once, as soon as it has run."""
    if name in sys.modules:
        do(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, do))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module, and has its loader call the function after the module has run.

    Whoever only asks whether the module is there, as transformers does with `importlib.util.find_spec`, gets the same
    answer, and the module is still watched for.
    """

    def __init__(self, name: str, do: Callable[[Any], None]) -> None:
        self.name, self.do, self.is_done = name, do, False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module by the finders that come after this one."""
        if fullname != self.name or self.is_done:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next((found for each in others if (found := each.find_spec(fullname, path, target))), None)
        if spec and spec.loader:
            load = spec.loader.exec_module

            def load_and_do(module: types.ModuleType) -> None:
                load(module)
                if not self.is_done:
                    self.is_done = True  # it stays where it is: another thread may be going through the finders
                    self.do(module)

            spec.loader.exec_module = load_and_do  # type: ignore[method-assign]
        return spec
