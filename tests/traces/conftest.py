"""Traces that hold what a test says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_traces import write

from workshop.traces import read
from workshop.traces.trace import Trace


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., Trace]:
    """Read a trace of some events, or lists of them."""

    def of(*parts: Any) -> Trace:
        events = [event for part in parts for event in ([part] if isinstance(part, dict) else part)]
        return read(write(tmp_path / f"{len(list(tmp_path.iterdir()))}.json", {"traceEvents": events}))

    return of
