"""Finds the user's code as Python loads it, and has it counted before it runs.

Modules are loaded by importlib, whose loaders have one method that returns a module's code. A script is not: Python
compiles it by itself. But whatever is run as a script may also be a folder or a ZIP file, for which Python asks
`sys.path_hooks`. A hook that takes the script itself has Python load the script by a loader as well; the same holds for
`runpy.run_path`, by which multiprocessing loads the script in processes that it spawns.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from workshop.probe.user_code import LIBRARY_FOLDERS, is_user_code

Count = Callable[[CodeType, str, bytes], CodeType]
"""A function that takes the code of a file, the file's path and its source, and returns the code that is to run."""


class ImportHook:
    """Hands the user's code to a function before it runs.

    Args:
        more: folders of installed packages that count as the user's code, too.
        count: the function.
    """

    def __init__(self, more: Sequence[str], count: Count) -> None:
        self.more = [Path(folder).resolve() for folder in more]
        self.count = count
        self.main = vars(sys.modules["__main__"])

    def watch(self) -> None:
        """Do so with all code that this process loads from now on."""
        get_code = SourceFileLoader.get_code
        hook = self

        def get_user_code(loader: SourceFileLoader, name: str) -> CodeType | None:
            code = get_code(loader, name)
            if code and hook.is_user_code(loader.path):
                return hook.count(code, loader.path, loader.get_data(loader.path))
            return code

        SourceFileLoader.get_code = get_user_code  # type: ignore[method-assign,assignment]
        sys.path_hooks.insert(0, self._finder)

    def is_user_code(self, path: str) -> bool:
        """Return whether a file is the user's code, or lies in one of the folders."""
        path = os.path.abspath(path)
        if is_user_code(path):
            return True
        file = Path(path).resolve()
        inside = (file.relative_to(folder) for folder in self.more if file.is_relative_to(folder))
        return any(not LIBRARY_FOLDERS.search(path.as_posix()) for path in inside)

    def _finder(self, path: str) -> "_ScriptFinder":
        """Return what finds the code of a script, as a path hook does; an ImportError leaves the path to the others."""
        if not (path.endswith(".py") and Path(path).is_file() and self.is_user_code(path)):
            raise ImportError
        return _ScriptFinder(path, self)


class _ScriptFinder:
    """Finds a script, where Python looks for `__main__` in it."""

    def __init__(self, path: str, hook: ImportHook) -> None:
        self.path, self.hook = path, hook

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_loader(name, _ScriptLoader(self.path, self.hook)) if name == "__main__" else None


class _ScriptLoader(SourceFileLoader):
    """Loads a script so that it finds everything as it would if Python had run it by itself."""

    def __init__(self, path: str, hook: ImportHook) -> None:
        super().__init__("__main__", path)
        self.hook = hook

    def get_code(self, name: str) -> CodeType:
        """Return code that runs the script, once runpy has made its namespace."""
        return compile("__loader__.run(globals())", BETWEEN, "exec")

    def run(self, namespace: dict[str, Any]) -> None:
        """Run the script in a namespace."""
        path = self.path
        if namespace is self.hook.main:  # it is what Python was started with
            path = os.path.join(os.getcwd(), path)
            sys.path[:1] = [] if sys.flags.safe_path else [str(Path(path).resolve().parent)]
            if sys.excepthook is sys.__excepthook__:
                sys.excepthook = _show_without_loader
        loader = SourceFileLoader("__main__", path)  # as Python has it, which nothing of this hangs on
        namespace |= {
            "__spec__": None,
            "__loader__": loader,
            "__file__": path,
            "__cached__": None,
            "__package__": None,
        }
        source = self.get_data(path)
        exec(self.hook.count(self.source_to_code(source, path), path, source), namespace)


BETWEEN = "<workshop record lines>"
"""The name of the code between runpy and a script."""


def _show_without_loader(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception as Python does, without the frames that have led to the script."""
    while trace and trace.tb_frame.f_code.co_filename.startswith(("<frozen ", BETWEEN, __file__)):
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)
