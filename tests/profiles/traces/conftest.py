"""Traces that hold what a test says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_traces import write

from workshop.profiles.traces import Trace, read

MakeTrace = Callable[..., Trace]


@pytest.fixture
def trace(tmp_path: Path) -> MakeTrace:
    """Read a trace of some events, or lists of them."""

    def of(*events: Any, **about: Any) -> Trace:
        flat = [each for part in events for each in (part if isinstance(part, list) else [part])]
        number = len(list(tmp_path.iterdir()))
        return read(write(tmp_path / f"{number}.json", {"traceEvents": flat} | about))

    return of
