"""Real git repositories for tests."""

import subprocess
from pathlib import Path

AS_SOMEBODY = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder."""
    command = ["git", "-C", str(folder), *AS_SOMEBODY, "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path, **files: str) -> Path:
    """Make a repository with one commit of some files, each named without .py."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    return commit(folder, **files)


def commit(folder: Path, **files: str) -> Path:
    """Write files, and commit all there is."""
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "more")
    return folder
