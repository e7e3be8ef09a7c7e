"""Tells which frames are the user's code, which are a library's, and which are native code."""

import importlib.machinery
import re
import site
import sys
import sysconfig
from collections import Counter
from enum import StrEnum
from functools import cache
from pathlib import Path

from workshop.profiles.stacks import Frame, Recording

LIBRARY_FOLDERS = re.compile(r"(^|/)(site-packages|dist-packages|lib(64)?/python\d|Python[\d.]*/Lib|Python\.framework)")
NATIVE_SUFFIXES = (".so", ".dll", ".dylib", ".pyd", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".pyx", ".rs", ".S")
SCRIPT_SUFFIXES = (".py", ".ipynb")


class CodeOrigin(StrEnum):
    """Where the code of a frame comes from."""

    OWN = "own"
    LIBRARY = "library"
    NATIVE = "native"


class CodeOrigins:
    """Tells the user's code from libraries in a recording.

    py-spy shortens paths to what follows the entry of `sys.path`, and a recording may come from another machine. So a
    library is what comes with Python, what is installed here, and what lies in a folder for libraries. The scripts that
    were run are always the user's code.

    Args:
        recording: the stacks; their outermost module bodies are the scripts.
        library: a text; code whose path contains it is the user's, too, wherever it is installed. "" for nothing.
    """

    def __init__(self, recording: Recording, library: str = "") -> None:
        self._library = library
        outermost = {stack.frames[0] for stack in recording.stacks if stack.frames}
        self._scripts = {frame.path for frame in outermost if frame.name == "<module>" and frame.path[:1] != "<"}
        self._of_path = cache(self._find)

    def __call__(self, frame: Frame) -> CodeOrigin:
        """Return where the code of a frame comes from."""
        return self._of_path(frame.path)

    def is_own(self, frame: Frame) -> bool:
        """Return whether a frame is the user's code."""
        return self._of_path(frame.path) is CodeOrigin.OWN

    def _find(self, path: str) -> CodeOrigin:
        if path in self._scripts or (self._library and self._library in path):
            return CodeOrigin.OWN
        slashes = path.replace("\\", "/")
        if not slashes or slashes.endswith(NATIVE_SUFFIXES) or ".so." in slashes:
            return CodeOrigin.NATIVE
        if slashes.startswith("<") or LIBRARY_FOLDERS.search(slashes):
            return CodeOrigin.LIBRARY
        if slashes.startswith(("/", "./", "../")) or slashes[1:2] == ":":
            return CodeOrigin.OWN if slashes.endswith(".py") else CodeOrigin.NATIVE
        top_level = slashes.partition("/")[0].removesuffix(".py")
        if top_level in sys.stdlib_module_names or _is_installed(top_level):
            return CodeOrigin.LIBRARY
        return CodeOrigin.OWN if slashes.endswith(SCRIPT_SUFFIXES) else CodeOrigin.NATIVE


def script_of(recording: Recording) -> str:
    """Return the name of the script with most samples; empty if there is none.

    The script is the outermost module body of a stack that is no library's: a launcher, such as torchrun, is one.
    """
    is_own = CodeOrigins(recording).is_own
    samples: Counter[str] = Counter()
    for stack in recording.stacks:
        for frame in stack.frames:
            if frame.name == "<module>" and frame.path.endswith(SCRIPT_SUFFIXES) and is_own(frame):
                samples[Path(frame.path).name] += stack.samples
                break
    return max(samples, key=samples.__getitem__, default="")


@cache
def _is_installed(module: str) -> bool:
    """Return whether a top-level module is where pip installs them, without importing anything."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    return importlib.machinery.PathFinder.find_spec(module, [*folders]) is not None
