"""The linter, the formatter and the type checker have nothing to say."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "command", ["ruff check", "ruff format --check --diff", "mypy --no-error-summary"], ids=lambda c: c.split(" --")[0]
)
def test_clean(command: str, project: Path) -> None:
    found = subprocess.run([sys.executable, "-m", *command.split()], cwd=project, capture_output=True, text=True)
    assert (found.returncode, found.stdout) in [(0, ""), (0, "All checks passed!\n")], found.stdout + found.stderr
