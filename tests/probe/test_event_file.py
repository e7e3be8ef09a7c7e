"""Events of many threads and processes are all in the files."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from workshop.errors import WorkshopError
from workshop.judge.ledger import events_in
from workshop.probe.event_file import EventFile, why_lost
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
                events.write(LoaderStarted, workers=thread)

            list(pool.map(write, range(THREADS)))
            assert sorted(event.workers for event in events_in(folder)) == list(range(THREADS))


OPENS = """
import os, resource, shutil, sys
from workshop.probe.event_file import EventFile
from workshop.probe.opened_files import watch_writes
from workshop.probe.opened_files import watch_photos

notes, photos, trouble = sys.argv[1:]
events = EventFile(notes)
watch_photos(f"{photos}/", events)
watch_writes([notes], events)
if trouble == "too many files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
elif trouble == "no folder":
    shutil.rmtree(notes)
elif trouble == "disk full":
    os.symlink("/dev/full", f"{notes}/{os.getpid()}.jsonl")
for name in "ab":
    if trouble == "too many files":
        sys.audit("open", f"{photos}/{name}.jpg", "w", 0)  # as for a file that C++ opens
    else:
        open(f"{photos}/{name}.jpg", "w").close()
sys.audit("open", photos)
sys.audit("open", 3, None, 0)
try:
    open("no\\0path")
except ValueError:
    print("went on")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is of Linux")
@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ("none", ""),
        ("disk full", "No space left on device"),
        ("too many files", "Too many open files"),
        ("no folder", ""),
    ],
)
def test_what_cannot_be_noted_is_lost_and_known_and_the_script_goes_on(trouble: str, why: str, tmp_path: Path) -> None:
    notes, photos = tmp_path / "notes", tmp_path / "photos"
    notes.mkdir(), photos.mkdir()
    command = [sys.executable, "-c", OPENS, notes, photos, trouble]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert (done.stdout, done.returncode) == ("went on\n", 0), done.stderr
    assert why_lost(notes) == why
    if why:
        with pytest.raises(WorkshopError, match=f"{why}; set TMPDIR to another folder"):
            events_in(notes)
