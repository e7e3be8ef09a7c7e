"""What is asked of git; nothing here changes a repository."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from workshop.errors import WorkshopError

_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Variables that git sets for a hook, and that would name another repository or index."""


class GitError(WorkshopError):
    """Git refused; the text is the first line of what it said."""


def git(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run git in a folder and return what it prints.

    Raises:
        GitError: git ended with an error.
        WorkshopError: there is no git.
    """
    if not shutil.which("git"):
        raise WorkshopError("there is no git on this machine; install it, or name two scripts: compare OLD NEW")
    usual = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "core.quotePath=false", *arguments],
        env={**usual, **(environment or {}), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if done.returncode:
        raise GitError((os.fsdecode(done.stderr).strip() or f"git ended with code {done.returncode}").splitlines()[0])
    return os.fsdecode(done.stdout)


def names(text: str) -> Sequence[str]:
    """Return the names that git printed with -z."""
    return [each for each in text.split("\0") if each]
