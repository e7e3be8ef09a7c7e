"""Which frames are one's own code, which a library's, which native."""

import importlib.machinery
import re
import site
import sys
import sysconfig
from enum import StrEnum
from functools import cache
from pathlib import Path

from workshop.profiles.stacks import Frame, Recording

LIBRARY_FOLDERS = re.compile(r"(^|/)(site-packages|dist-packages|lib(64)?/python\d|Python[\d.]*/Lib|Python\.framework)")
NATIVE_SUFFIXES = (".so", ".dll", ".dylib", ".pyd", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".pyx", ".rs", ".S")


class Origin(StrEnum):
    """Whose code a frame is."""

    OWN = "own"
    LIBRARY = "library"
    NATIVE = "native"


class Origins:
    """Tells own code from libraries in a recording.

    py-spy shortens paths to what follows the folder on Python's path, and a recording may come from another machine.
    So a library is what Python brings along, what is installed here, and what names a folder for libraries. The scripts
    that were run are one's own in any case.

    Args:
        recording: the stacks; their outermost module bodies are the scripts.
        library: own is, besides, what contains this in its path, wherever it is installed; "" for nothing.
    """

    def __init__(self, recording: Recording, library: str = "") -> None:
        self.library = library
        self.scripts = {stack.frames[0].path for stack in recording.stacks if _runs_a_script(stack.frames)}
        self._of_path: dict[str, Origin] = {}

    def __call__(self, frame: Frame) -> Origin:
        """Whose code it is."""
        origin = self._of_path.get(frame.path)
        if origin is None:
            origin = self._of_path[frame.path] = self._find(frame.path)
        return origin

    def is_own(self, frame: Frame) -> bool:
        """Whether it is one's own."""
        return self(frame) is Origin.OWN

    def _find(self, path: str) -> Origin:
        if path in self.scripts or (self.library and self.library in path):
            return Origin.OWN
        slashes = path.replace("\\", "/")
        if not slashes or slashes.endswith(NATIVE_SUFFIXES) or ".so." in slashes:
            return Origin.NATIVE
        if slashes.startswith("<") or LIBRARY_FOLDERS.search(slashes):
            return Origin.LIBRARY
        if slashes.startswith(("/", "./", "../")) or slashes[1:2] == ":":
            return Origin.OWN if slashes.endswith(".py") else Origin.NATIVE
        top = slashes.partition("/")[0].removesuffix(".py")
        if top in sys.stdlib_module_names or _is_installed(top):
            return Origin.LIBRARY
        return Origin.OWN if slashes.endswith((".py", ".ipynb")) else Origin.NATIVE


def _runs_a_script(frames: tuple[Frame, ...]) -> bool:
    return bool(frames) and frames[0].name == "<module>" and not frames[0].path.startswith("<")


@cache
def _is_installed(name: str) -> bool:
    """Whether a top-level module lies where pip puts them. Nothing is imported."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    spec = importlib.machinery.PathFinder.find_spec(name, [folder for folder in folders if Path(folder).is_dir()])
    return spec is not None
