"""Events of many threads and processes are all in the files."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from workshop.judge.ledger import events_in
from workshop.probe.event_file import EventFile
from workshop.probe.events import LoaderStarted

THREADS = 8


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_threads_that_begin_at_once_lose_no_event(tmp_path: Path) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        for turn in range(50):
            folder = tmp_path / str(turn)
            folder.mkdir()
            events, together = EventFile(str(folder)), Barrier(THREADS)

            def write(thread: int, events: EventFile = events, together: Barrier = together) -> None:
                together.wait()
                events.write(LoaderStarted, batches=thread, workers=0)

            list(pool.map(write, range(THREADS)))
            assert sorted(event.batches for event in events_in(folder)) == list(range(THREADS))
