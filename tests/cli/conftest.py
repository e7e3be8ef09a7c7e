"""What the tests of commands share."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start the command `workshop` in a process of its own, which can be stopped by Ctrl-C."""

    def start_command(
        *arguments: str | Path, environment: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "workshop", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, **(environment or {})},
            # A shell that starts the tests in the background makes what they start deaf to Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **{"stderr": subprocess.PIPE, "text": True} | options,
        )

    return start_command


@pytest.fixture
def quick_trials(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the trials that take long, such as torch.compile."""
    if not request.node.get_closest_marker("acceptance"):
        monkeypatch.setattr("workshop.diagnosis.stages.MAX_DURATION_S", 0.0)
