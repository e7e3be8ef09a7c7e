"""Tells which frames are the user's code, which are a library's, and which are native code."""

from collections import Counter
from enum import StrEnum
from functools import cache
from pathlib import Path

from workshop.probe.user_code import is_user_code
from workshop.profiles.stacks import Frame, Recording

NATIVE_SUFFIXES = (".so", ".dll", ".dylib", ".pyd", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".pyx", ".rs", ".S")
SCRIPT_SUFFIXES = (".py", ".ipynb")


class CodeOrigin(StrEnum):
    """Where the code of a frame comes from."""

    USER = "user"
    LIBRARY = "library"
    NATIVE = "native"


class CodeOrigins:
    """Tells the user's code from libraries in a recording.

    What is the user's is told by `is_user_code`. The script that was run is the user's code wherever it lies, unless
    that is true of another script, too: torch.compile starts scripts of its own.

    Args:
        recording: the stacks; their outermost module bodies are the scripts.
        library: a text; code whose path contains it is the user's, too, wherever it is installed. "" for nothing.
    """

    def __init__(self, recording: Recording, library: str = "") -> None:
        self._library = library
        outermost = {stack.frames[0] for stack in recording.stacks if stack.frames}
        scripts = {frame.path for frame in outermost if frame.name == "<module>" and frame.path[:1] != "<"}
        self._scripts = {path for path in scripts if "/" not in path or is_user_code(path)} or scripts
        self._of_path = cache(self._find)

    def __call__(self, frame: Frame) -> CodeOrigin:
        """Return where the code of a frame comes from."""
        return self._of_path(frame.path)

    def is_user_code(self, frame: Frame) -> bool:
        """Return whether a frame is the user's code."""
        return self._of_path(frame.path) is CodeOrigin.USER

    def _find(self, path: str) -> CodeOrigin:
        if path in self._scripts or (self._library and self._library in path):
            return CodeOrigin.USER
        slashes = path.replace("\\", "/")
        if not slashes or slashes.endswith(NATIVE_SUFFIXES) or ".so." in slashes:
            return CodeOrigin.NATIVE
        if not is_user_code(slashes):
            return CodeOrigin.LIBRARY
        is_python = slashes.endswith(SCRIPT_SUFFIXES) or slashes.startswith("<")
        return CodeOrigin.USER if is_python else CodeOrigin.NATIVE


def script_of(recording: Recording) -> str:
    """Return the name of the script with most samples; empty if there is none.

    The script is the outermost module body of a stack that is no library's: a launcher, such as torchrun, is one.
    """
    is_user_code = CodeOrigins(recording).is_user_code
    samples: Counter[str] = Counter()
    for stack in recording.stacks:
        for frame in stack.frames:
            if frame.name == "<module>" and frame.path.endswith(SCRIPT_SUFFIXES) and is_user_code(frame):
                samples[Path(frame.path).name] += stack.samples
                break
    return max(samples, key=samples.__getitem__, default="")
