"""Has a script of an earlier version import the modules of that version, wherever the working tree is on its path.

The folder of the script comes first on `sys.path`, so most modules are found beside it. But the working tree may be on
the path as well: as the current folder, by `PYTHONPATH`, by a line of the script, or as an editable install, whose
finders stand in `sys.meta_path`. So this asks the finders that come after it, and what they find in the working tree is
taken from the same place in the earlier version.
"""

import importlib.abc
import os
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location

from workshop.probe.settings import RedirectedImports

WATCHER = __name__.partition(".")[0]


class ImportRedirect(importlib.abc.MetaPathFinder):
    """Finds modules before those finders do that were there as Python started, and where the earlier version has them.

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
