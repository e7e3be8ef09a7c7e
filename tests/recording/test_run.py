"""Whatever a recorded command does, it comes to its end within a limit, and nothing of it is left running."""

import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from script_runs import press_ctrl_c, started

from workshop.recording import run as module
from workshop.recording.run import Run
from workshop.runs.process_tree import marked

DEAF = """
import signal, sys, time
from pathlib import Path

for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: print("no", flush=True))
Path(sys.argv[1]).touch()
while True:
    time.sleep(0.05)
"""

FAMILY = """
import os, subprocess, sys, time
from pathlib import Path

names = [f"{sys.argv[1]}/{number}" for number in range(2)]
for name in names:  # each in a session of its own, as ranks are
    subprocess.Popen([sys.executable, "deaf.py", name], start_new_session=True)
while not all(map(os.path.exists, names)):
    time.sleep(0.01)
Path(sys.argv[1], "ready").touch()
if sys.argv[2] == "wait":
    time.sleep(1000)
sys.exit(3)
"""


@pytest.mark.parametrize(("then", "is_over", "code"), [("wait", True, 0), ("end", False, 3)])
def test_the_whole_tree_ends(
    then: str, is_over: bool, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its time is over, or what lingers after its end; two children do not listen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "GRACE_S", 0.5)
    (tmp_path / "deaf.py").write_text(DEAF)
    (tmp_path / "family.py").write_text(FAMILY)
    run = Run([sys.executable, "family.py", str(tmp_path), then], str(tmp_path), {})
    run.wait((tmp_path / "ready").exists if is_over else lambda: False)
    assert (run.is_over, run.exit_code, run.stopped) == (is_over, code, None)
    assert marked(str(tmp_path)) == []


def test_what_ends_by_itself_is_left_in_peace(tmp_path: Path) -> None:
    late = "import time; time.sleep(0.5); open('late', 'w').close()"
    command = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {late!r}], cwd={str(tmp_path)!r})"
    run = Run([sys.executable, "-c", command], str(tmp_path), {})
    run.wait()
    assert (tmp_path / "late").exists()


RECORDER = """
import sys
from workshop.recording import run as module
module.GRACE_S = 0.5
wait_while = module.wait_while
module.wait_while = lambda *of: (print("waits", flush=True), wait_while(*of))
run = module.Run([sys.executable, *sys.argv[2:]], sys.argv[1], {})
looks = []
def look():  # the recorder waits by now, and hears a signal
    if not looks:
        print("ready", flush=True)
    return looks.append(None)
run.wait(look)
print(type(run.stopped).__name__, flush=True)
"""


@pytest.mark.parametrize("how", ["Ctrl-C twice", "SIGTERM"])
def test_a_script_that_catches_signals_ends_all_the_same(how: str, tmp_path: Path) -> None:
    (tmp_path / "deaf.py").write_text(DEAF)
    (tmp_path / "recorder.py").write_text(
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n" + RECORDER
    )
    with started(tmp_path, "recorder.py", tmp_path, "deaf.py", tmp_path / "begun", ready="ready") as process:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        if how == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            press_ctrl_c(process)
            assert process.stdout
            while process.stdout.readline() != "waits\n":
                assert process.poll() is None
            assert process.poll() is None, "it may still save what it has"
            press_ctrl_c(process)
        said, errors = process.communicate(timeout=20)
    assert said.splitlines()[-1] == ("SystemExit" if how == "SIGTERM" else "KeyboardInterrupt"), errors
    assert marked(str(tmp_path)) == []


def test_semaphores_are_not_left_behind(tmp_path: Path) -> None:
    """The process that deletes them ignores SIGTERM, and is given the time to do it."""
    script = tmp_path / "semaphores.py"
    script.write_text(
        "import multiprocessing, time\nfrom pathlib import Path\n"
        "multiprocessing.set_start_method('spawn')\n"
        "lock = multiprocessing.Lock()\nprint(lock._semlock.name)\n"
        f"Path({str(tmp_path)!r}, 'ready').touch()\ntime.sleep(1000)\n"
    )
    run = Run([sys.executable, str(script)], str(tmp_path), {"PYTHONUNBUFFERED": "1"})
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    trackers = [each for each in psutil.Process(run.process.pid).children() if "tracker" in " ".join(each.cmdline())]
    assert trackers
    run.wait(lambda: True)
    assert marked(str(tmp_path)) == []
