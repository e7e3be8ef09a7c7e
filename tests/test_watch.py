"""Files that change while they are watched."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from workshop import watch
from workshop.watch import changes


def test_once_now_and_at_every_change(tmp_path: Path) -> None:
    script, profile = tmp_path / "train.py", tmp_path / "train.py.lprof"
    script.write_text("1")
    changing = changes([script, profile], 0.02)
    next(changing)
    script.write_text("2")
    next(changing)
    profile.write_text("of it")
    next(changing)


def test_only_what_stays_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone, saved as it was, or still being written is waited for: counted in looks, not in seconds."""
    script = tmp_path / "train.py"
    script.write_text("1")
    acts = iter(
        [
            lambda: script.touch(),
            lambda: script.unlink(),
            lambda: None,
            lambda: script.write_text("1"),  # an editor that writes anew what was there
            lambda: script.write_text("2, half"),
            lambda: script.write_text("2, whole"),
            lambda: None,
        ]
    )
    waits = itertools.count(1)
    waited = 0

    def sleep(_: float) -> None:
        nonlocal waited
        waited = next(waits)
        next(acts)()

    monkeypatch.setattr(watch.time, "sleep", sleep)
    changing = changes([script], 1.0)
    next(changing)
    assert waited == 0
    next(changing)
    assert (waited, script.read_text()) == (7, "2, whole")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_watch_checks_again_and_never_moves_on(project: Path, data: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys; sys.exit('first')")
    watching = subprocess.Popen(
        [sys.executable, "-m", "workshop", "watch", "part6", "--data", data, "--device", "cpu"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # A shell that starts the tests in the background makes what they start deaf to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    stop = threading.Timer(200, watching.kill)
    stop.start()
    assert watching.stdout
    said = []
    for line in watching.stdout:
        said.append(line.strip())
        if line.startswith("watching") and said.count(line.strip()) == 1:
            script.write_bytes((project / "solutions" / "part6.py").read_bytes())
        elif line.startswith("watching"):
            time.sleep(2.5)  # nothing more may come
            watching.send_signal(signal.SIGINT)
    stop.cancel()
    assert watching.wait() == 130
    assert [line for line in said if line.startswith("part6:")] == [
        "part6: Prefetch to the GPU",
        "part6: broken",
        "part6: Prefetch to the GPU",
        "part6: done",
    ]
    assert "part6 is finished. Next: part7, From outside: workshop show part7" in said
    assert said[-1] == "stopped by Ctrl-C"
