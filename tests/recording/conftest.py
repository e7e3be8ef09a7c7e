"""What the tests of recordings rest on."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from workshop.recording.py_spy import why_no_access
from workshop.runs.process_tree import marked


@pytest.fixture(scope="session")
def py_spy_attaches() -> None:
    """Where py-spy may not look, nothing can be recorded; in CI it must. It is found out once for all tests."""
    if reason := why_no_access():
        if os.environ.get("CI"):
            pytest.fail(f"CI must let py-spy attach: {reason}")
        pytest.skip(f"py-spy may not attach: {reason}")


@pytest.fixture
def left_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[psutil.Process]]:
    """Return what still runs of the recorded runs of a test, which are asked to end within half a second."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("workshop.recording.run.GRACE_S", 0.5)
    return lambda: marked(str(tmp_path))
