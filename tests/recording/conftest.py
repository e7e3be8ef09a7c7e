"""What the tests of recordings rest on."""

import os

import pytest

from workshop.recording.py_spy import why_no_access


@pytest.fixture(scope="session")
def py_spy_attaches() -> None:
    """Where py-spy may not look, nothing can be recorded; in CI it must. It is found out once for all tests."""
    if reason := why_no_access():
        if os.environ.get("CI"):
            pytest.fail(f"CI must let py-spy attach: {reason}")
        pytest.skip(f"py-spy may not attach: {reason}")


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, several threads of torch wait for each other far longer than they compute."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
