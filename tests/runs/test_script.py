"""Whatever a script does, there is an answer and nothing is left of it: no process, no folder."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from workshop.probe.connection import ClosedError
from workshop.probe.messages import TryCauses
from workshop.probe.settings import JudgedRun
from workshop.runs.script import Script, run_folder
from workshop.runs.script_error import ScriptError

Make = Callable[..., Script]

SAY = "from workshop.probe import start\nfrom workshop.probe.messages import TryCauses\nsay = start.judge.send\n"
JUDGED = JudgedRun(photos=None, epoch_steps=None, sample_step=None)
REST = "import time\ntime.sleep(1000)\n"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A script of a given text; after the test, nothing that was started in it may run, and its folder is gone."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(run_folder())

        def script(text: str, patience_s: float = 60.0) -> Script:
            path = tmp_path / "script.py"
            path.write_text(text)
            return stack.enter_context(Script([str(path)], folder, patience_s=patience_s))

        yield script
    assert left_over(tmp_path) == []
    assert not folder.exists()


def left_over(folder: Path) -> list[str]:
    """Command lines that name the folder, of processes that live."""
    found = [process.info for process in psutil.process_iter(["pid", "cmdline", "status"])]
    lives = [each for each in found if each["pid"] != os.getpid() and each["status"] != psutil.STATUS_ZOMBIE]
    return [line for each in lives if str(folder) in (line := " ".join(each["cmdline"] or []))]


def test_it_says_something_and_is_told_something(make: Make) -> None:
    script = make(SAY + "say(TryCauses(('here',)))\nsay(start.judge.receive())\n" + REST)
    script.start(JUDGED)
    assert script.receive() == TryCauses(("here",))
    script.send(TryCauses(("there",)))
    assert script.receive() == TryCauses(("there",))


def receive_or_end(script: Script) -> None:
    try:
        script.receive()
    except ClosedError:
        raise script.ended("at once") from None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (REST, "it did not come to the end of a step within 1 s"),
        ("while True: pass", "it did not come to the end of a step within 1 s"),
        ("import os\nfor _ in range(8): os.fork()\n" + REST, "it started more than 200 processes"),
        ("import sys\nsys.exit(0)", "it ended with code 0 at once"),
        ("import os\nos._exit(7)", "it ended with code 7 at once"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "it was killed by SIGKILL at once"),
        ("1 / 0", "it ended with code 1 at once"),
        (SAY + "start.judge.close()\n" + REST, "it closed its connection to the workshop, and went on"),
        ("import os\nos.closerange(3, 100)\n" + REST, "it did not come to the end of a step within 1 s"),
    ],
    ids="sleeps spins forks exits dies killed raises deaf closes".split(),
)
def test_a_script_that_does_not_train(make: Make, text: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workshop.runs.script.EXIT_PATIENCE_S", 0.3)
    monkeypatch.setattr("workshop.runs.script.LOOK_EVERY_S", 0.1)
    monkeypatch.setattr("workshop.runs.script.MAX_PROCESSES", 200)
    script = make(text, patience_s=0.6 if "within" in says else 60.0)
    script.start(JUDGED)
    with pytest.raises(ScriptError, match=says):
        receive_or_end(script)


def test_eight_ranks_with_thirty_workers_each_are_no_fork_bomb(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workshop.runs.script.LOOK_EVERY_S", 0.2)
    script = make(
        "import os\nif all([os.fork() for _ in range(8)]):\n    "
        + SAY.replace("\n", "\n    ")
        + "say(TryCauses(('',)))\n"
        + REST
    )
    script.start(JUDGED)
    assert isinstance(script.receive(), TryCauses)
    script.patience_s = 1.0
    with pytest.raises(ScriptError, match="did not come to the end"):
        script.receive()


def test_the_end_of_what_it_printed_is_kept(make: Make) -> None:
    script = make("for _ in range(20_000): print('x' * 50)\nprint('the end')\n1 / 0")
    script.start(JUDGED)
    with pytest.raises(ClosedError):
        script.receive()
    output = script.ended("").output
    assert len(output) <= 20_000
    assert "the end" in output
    assert "ZeroDivisionError" in output


def test_a_process_that_flees_is_found(make: Make, tmp_path: Path) -> None:
    flee = f"""
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)", {str(tmp_path)!r}])
    os._exit(0)
os.wait()
time.sleep(0.2)
"""
    script = make(flee + SAY + "say(TryCauses(('',)))\n" + REST)
    script.start(JUDGED)
    script.receive()
    assert any("time.sleep(1000)" in line for line in left_over(tmp_path))
    script.stop()
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("paused", [True, False])
def test_nothing_outlives_a_parent_that_is_killed(paused: bool, tmp_path: Path) -> None:
    """Not even a script that is stopped, with its workers."""
    script, parent = tmp_path / "script.py", tmp_path / "parent.py"
    script.write_text(
        "import os, time\nif os.fork() == 0:\n    time.sleep(1000)\n" + SAY + "say(TryCauses(('',)))\n" + REST
    )
    parent.write_text(
        "import signal, time\nfrom pathlib import Path\nfrom workshop.runs.script import Script\n"
        f"Path({str(tmp_path)!r}, 'run').mkdir()\n"
        "from workshop.probe.settings import JudgedRun\n"
        f"script = Script([{str(script)!r}], Path({str(tmp_path)!r}, 'run'))\n"
        "script.start(JudgedRun(None, None, None))\nscript.receive()\n"
        + ("script.signal(signal.SIGSTOP)\n" if paused else "")
        + "print('ready', flush=True)\ntime.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, str(parent)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    give_up = time.monotonic() + 20
    while left_over(tmp_path) and time.monotonic() < give_up:
        time.sleep(0.1)
    assert left_over(tmp_path) == []
    assert not (tmp_path / "run").exists()
