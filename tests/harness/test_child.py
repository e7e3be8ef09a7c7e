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

from workshop.harness.child import MOST_OUTPUT_BYTES, Child, ScriptError

TRAINING = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(torch.randn(4, 8)), torch.zeros(4, 8)).backward()
    optimizer.step()
"""

Make = Callable[..., Child]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A child that runs a given text; after the test, nothing that was started in it may run."""
    with contextlib.ExitStack() as stack:

        def child(text: str, **options: object) -> Child:
            script = tmp_path / "script.py"
            script.write_text(text)
            return stack.enter_context(Child([str(script)], tmp_path, 2, **options))  # type: ignore[arg-type]

        yield child
    assert left_over(tmp_path) == []


def left_over(folder: Path) -> list[str]:
    """Command lines that name the folder, of processes that live."""
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if str(folder) in line and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                lines.append(line)
    return lines


def test_epochs_one_at_a_time(make: Make) -> None:
    child = make(TRAINING + "while True: step(); print('stepped', flush=True)")
    for _ in range(3):
        assert child.epoch().finished
    assert child.process
    script = psutil.Process(child.process.pid)
    give_up = time.monotonic() + 10
    while script.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_phases_add_up_to_the_clock(make: Make) -> None:
    child = make(TRAINING + "import time\nwhile True: time.sleep(0.2); step()")
    child.epoch()
    epoch = child.epoch()
    assert sum(epoch.phases.values()) == pytest.approx(epoch.seconds, rel=0.02, abs=0.02)
    assert epoch.phases["other"] >= 0.4


def test_a_script_that_ends_is_started_again(make: Make) -> None:
    child = make(TRAINING + "for _ in range(4): step()")
    for _ in range(4):
        child.epoch()
    assert child.lives > 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import time\ntime.sleep(1000)", "it did not come to the end of an epoch within 3 s"),
        ("while True: pass", "it did not come to the end of an epoch within 3 s"),
        (
            "import os\nfor _ in range(8): os.fork()\nimport time; time.sleep(1000)",
            "it started more than 200 processes",
        ),
        ("import sys\nsys.exit(0)", "it ended with code 0 before the end of its first epoch"),
        ("import os\nos._exit(7)", "it ended with code 7 before the end of its first epoch"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "it was killed by SIGKILL"),
        (TRAINING + "step(); step(); step(); raise SystemExit(3)", "it ended with code 3 after 1 epochs"),
        ("1 / 0", "it ended with code 1"),
        (TRAINING + "step(); step()", "it ends after one epoch; the judge needs two"),
        ("import os\nos.closerange(3, 100)\nimport time; time.sleep(1000)", "it "),
    ],
    ids="sleeps spins forks exits dies killed later raises once deaf".split(),
)
def test_a_script_that_does_not_train(make: Make, text: str, says: str) -> None:
    runs_out = "within" in says or says == "it "
    child = make(text, patience_s=3.0 if runs_out else 60.0)
    if "1 epochs" in says or "one epoch" in says:
        child.epoch()
    with pytest.raises(ScriptError, match=says):
        child.epoch()


def test_the_end_of_what_it_printed_is_kept(make: Make) -> None:
    child = make("for _ in range(200_000): print('x' * 50)\nprint('the end')\n1 / 0")
    with pytest.raises(ScriptError) as caught:
        child.epoch()
    assert len(caught.value.output) <= MOST_OUTPUT_BYTES
    assert "the end" in caught.value.output
    assert "ZeroDivisionError" in caught.value.output


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt the orphans below it")
def test_a_process_that_flees_is_found(make: Make, tmp_path: Path) -> None:
    flee = f"""
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)", {str(tmp_path)!r}])
    os._exit(0)
os.wait()
time.sleep(0.5)
"""
    child = make(flee + TRAINING + "while True: step()")
    child.epoch()
    assert any("time.sleep(1000)" in line for line in left_over(tmp_path))
    child.close()
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("paused", [True, False])
def test_nothing_outlives_a_judge_that_is_killed(paused: bool, tmp_path: Path) -> None:
    """Not even a child that is stopped, with its workers."""
    script, judge = tmp_path / "script.py", tmp_path / "judge.py"
    worker = "import os, time\nif os.fork() == 0:\n    time.sleep(1000)\n"
    script.write_text(worker + TRAINING + "import time\nwhile True: step(); time.sleep(0.1)")
    judge.write_text(
        "import sys, time\nfrom pathlib import Path\nfrom workshop.harness.child import Child\n"
        f"child = Child([{str(script)!r}], Path({str(tmp_path)!r}), 2)\nchild.epoch()\nprint('ready', flush=True)\n"
        + ("time.sleep(1000)" if paused else "while True: child.epoch()")
    )
    with subprocess.Popen([sys.executable, str(judge)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    give_up = time.monotonic() + 20
    while left_over(tmp_path) and time.monotonic() < give_up:
        time.sleep(0.2)
    assert left_over(tmp_path) == []


def test_nothing_is_left_on_disk(make: Make) -> None:
    child = make(TRAINING + "while True: step()")
    child.epoch(sample_step=1)
    assert child.folder.exists()
    child.close()
    assert not child.folder.exists()
