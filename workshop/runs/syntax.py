"""Whether a script can be parsed: what says so at once need not be found out by running it."""

import shutil
import sys
import traceback
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from workshop.runs.script import ScriptError


def require_syntax(script: Path | str) -> None:
    """Do nothing for a file of Python that can be parsed, and for what is none, or not there.

    Raises:
        ScriptError: it cannot be parsed, as if it had been run.
    """
    path = Path(script)
    if path.suffix != ".py" or not path.is_file():
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(path.read_bytes(), str(path.absolute()), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        said = "".join(traceback.format_exception_only(error))
        where = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ScriptError(f"it cannot be parsed: a syntax error{where}", 1, said, path.name) from None


def script_in(command: Sequence[str]) -> str:
    """Return the script that a command runs by this Python, or by torchrun; "" if that is not known."""
    program = shutil.which(command[0]) or command[0]
    if not program.endswith((".py", "torchrun")) and Path(program).resolve() != Path(sys.executable).resolve():
        return ""
    modules = [f"{name.replace('.', '/')}.py" for option, name in pairwise(command) if option == "-m"]
    return next((word for word in (*modules, *command) if word.endswith(".py") and Path(word).is_file()), "")
