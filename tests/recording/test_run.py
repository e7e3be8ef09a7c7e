"""Whatever a recorded command does, it comes to its end within a limit, and nothing of it is left running."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from conftest import Run as Workshop
from script_runs import press_ctrl_c, started
from torch.utils.data import DataLoader

from workshop.probe.first_step import STEP, TORCH, note_first_step
from workshop.probe.internals import loader_iterators
from workshop.recording import run as module
from workshop.recording.run import Run, TimeLimit
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


def wrappers() -> tuple[object, ...]:
    return torch.autograd.backward, torch.autograd.grad, loader_iterators()[0].__next__


@pytest.mark.parametrize("how", ["backward", "grad", "batches"])
def test_the_first_step_is_noted_and_then_no_wrapper_is_left(how: str, tmp_path: Path) -> None:
    before, step = wrappers(), tmp_path / STEP
    note_first_step(torch, str(tmp_path))
    assert (tmp_path / TORCH).exists()
    assert not {*before} & {*wrappers()}
    if how == "batches":
        assert [len(next(iter(DataLoader(range(4))))) for _ in range(3)] == [1, 1, 1]
        assert not step.exists(), "who looks at a batch does not train yet"
        assert [step.exists() for _ in DataLoader(range(4))] == [False, True, True, True]
    else:
        model = torch.nn.Linear(2, 1)
        loss = model(torch.ones(1, 2)).sum()
        assert not step.exists()
        loss.backward() if how == "backward" else torch.autograd.grad(loss, [*model.parameters()])
    assert step.exists()
    assert wrappers() == before


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes as the test says."""
    time = [1000.0]
    monkeypatch.setattr("workshop.recording.run.time.monotonic", lambda: time[0])
    return time


def test_from_when_on_the_seconds_count(now: list[float], tmp_path: Path) -> None:
    said: list[str] = []

    def over_after(seconds: float, *, torch: bool, step: bool) -> bool:
        now[0] += seconds
        for name in [TORCH] * torch + [STEP] * step:
            (tmp_path / name).touch()
        return run.is_over()

    run = TimeLimit(5, tmp_path, said.append)
    assert not over_after(19, torch=False, step=False)
    assert over_after(2, torch=False, step=False), "it has no torch: its time was over long ago"
    assert said == ["\ntorch was not loaded within 20 s; the time counts from the start."]

    run = TimeLimit(5, tmp_path, said.append)
    assert not over_after(19, torch=True, step=False)
    assert not over_after(59, torch=True, step=False)
    assert not over_after(2, torch=True, step=False)
    assert over_after(5, torch=True, step=False)
    assert said[1:] == ["\nNo training step was seen within 60 s; the 5 s begin now."]

    run = TimeLimit(5, tmp_path, said.append)
    assert not over_after(19, torch=True, step=True)
    assert not over_after(4, torch=True, step=True)
    assert over_after(1, torch=True, step=True)
    assert len(said) == 2

    run = TimeLimit(None, tmp_path, said.append)
    assert not over_after(1e6, torch=True, step=True)


PLAYED = """
srun() { shift 3; SLURM_NODEID=0 "$@"; }
scontrol() { echo node7; }
torchrun() { printf '%s\\n' torchrun "$@"; }
workshop() { printf '%s\\n' workshop "$@"; }
export -f workshop
SLURM_NNODES=2 SLURM_GPUS_PER_NODE=a100:4 SLURM_JOB_ID=5 SLURM_JOB_NODELIST='node[7-8]'
"""


@pytest.mark.parametrize("start", [["python"], ["torchrun"], ["workshop", "torchrun"], []])
@pytest.mark.parametrize(
    ("asked", "recorder"),
    [
        (["py-spy", "--idle"], ["py-spy", "-o", "py-spy-outputs/", "--rate", "100", "--idle"]),
        (
            ["torch", "--with-stack", "--activities=cpu", "--wait=1"],
            ["torch", "--wait", "1", "--activities", "cpu", "--with-stack"],
        ),
    ],
    ids=["py-spy", "torch"],
)
def test_the_job_script(
    asked: list[str], recorder: list[str], start: list[str], workshop: Workshop, tmp_path: Path
) -> None:
    done = workshop("record", *asked, "--slurm", "--", *start, "train.py", "a b", 'c$d"e')
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#!/bin/bash\n#SBATCH ")
    (tmp_path / "job.sh").write_text(PLAYED + done.stdout)
    told = subprocess.run(["bash", tmp_path / "job.sh"], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [
        *["workshop", "record", *recorder, "--", "torchrun"],
        *["--nnodes=2", "--nproc_per_node=4", "--rdzv_id=5", "--rdzv_conf=is_host=1", "--rdzv_backend=c10d"],
        *["--rdzv_endpoint=node7:29500", "train.py", "a b", 'c$d"e'],
    ]
