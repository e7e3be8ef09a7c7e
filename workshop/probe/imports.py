"""What is done as a script imports a module: a function is called, or the module is taken from an earlier version."""

import importlib.abc
import os
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from typing import Any

from workshop.probe.settings import RedirectedImports

WATCHER = __name__.partition(".")[0]


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
    ) -> ModuleSpec | None:
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


class ImportRedirect(importlib.abc.MetaPathFinder):
    """Has a script of an earlier version import the modules of that version, wherever the working tree is on its path.

    The folder of the script comes first on `sys.path`, so most modules are found beside it. But the working tree may be
    on the path as well: as the current folder, by `PYTHONPATH`, by a line of the script, or as an editable install,
    whose finders stand in `sys.meta_path`. So this asks the finders that come after it, and what they find in the
    working tree is taken from the same place in the earlier version.

    A module that the earlier version does not have is left where it was found: a file that is not in git, such as a
    compiled extension, is the same for both versions.
    """

    def __init__(self, redirected: RedirectedImports) -> None:
        self.tree, self.base = redirected.tree, redirected.base

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module as the other finders find it, in the earlier version if it is there.

        The workshop itself, which watches both versions, is the same for both.
        """
        if fullname.partition(".")[0] == WATCHER:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            if find and (spec := find(fullname, path, target)):
                return self._of_base(spec)
        return None

    def _of_base(self, spec: ModuleSpec) -> ModuleSpec:
        folders = spec.submodule_search_locations
        if spec.origin is None or not spec.has_location:
            if folders is not None:  # of a package without an __init__.py
                spec.submodule_search_locations = list(dict.fromkeys(self._place(each) or each for each in folders))
            return spec
        place = self._place(spec.origin)
        if place is None:
            return spec
        inside = None if folders is None else [self._place(each) or each for each in folders]
        return spec_from_file_location(spec.name, place, submodule_search_locations=inside) or spec

    def _place(self, path: str) -> str | None:
        """Return where a path of the working tree is in the earlier version; None if it is not."""
        real = os.path.realpath(path)
        if not real.startswith(self.tree + os.sep):
            return None
        place = self.base + real[len(self.tree) :]
        return place if os.path.exists(place) else None
