"""What is said of a script that broke is about the script, and at once if it cannot be parsed."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Run

from workshop.probe.activity import note, note_fault
from workshop.probe.observations import ProcessActivity
from workshop.runs.script_error import (
    ScriptError,
    counted_activities,
    describe_activities,
    require_syntax,
    script_in,
    shorten,
)


def test_frames_of_packages_are_left_out(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nfrom psutil import Process\nsys.stderr.write('Epoch:  0%\\rEpoch: 50%\\r')\n"
        "def main():\n    Process(\n        -5,\n    )\n\nmain()\n"
    )
    output = subprocess.run([sys.executable, script], capture_output=True, text=True).stderr
    assert "site-packages" in output
    lines = shorten(output).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("  File ")] == [
        f'  File "{script}", line 9, in <module>',
        f'  File "{script}", line 5, in main',
    ]
    assert lines[-1].startswith("ValueError: ")


TRACE = 'Traceback (most recent call last):\n  File "<frozen x>", line 1, in f\n'
PAGE = "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : 7 (pid: 1) \n"


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (f"{TRACE}ValueError: no\n", f"{TRACE}ValueError: no"),
        ("\n".join(map(str, range(100))), "\n".join(map(str, range(88, 100)))),
        ("a bar\rthe last of the bar\n\n", "the last of the bar"),
        ("", ""),
        (
            f"said\n{TRACE}torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{PAGE}",
            "said\nrank 1 ended with exit code 7",
        ),
    ],
    ids="package lines bar nothing torchrun".split(),
)
def test_what_is_shown_without_a_traceback_of_ones_own(output: str, shown: str) -> None:
    assert shorten(output) == shown


RANK = """
import os, sys, torch
from torch import distributed

def main():
    if os.environ["RANK"] == "1" and sys.argv[1] == "at once":
        os.environ["missing"]
    distributed.init_process_group("gloo")
    for step in range(5):
        distributed.all_reduce(torch.ones(1))
        if os.environ["RANK"] == "1" and step == 3:
            sys.exit(7) if sys.argv[1] == "silently" else torch.nn.Linear(3, 4)(torch.ones(2, 2))

main()
"""


@pytest.mark.parametrize(
    ("how", "first", "last"),
    [
        pytest.param("in a step", "rank 1:\nTraceback", "RuntimeError: ", marks=pytest.mark.slow),
        pytest.param("at once", "rank 1:\nTraceback", "KeyError: 'missing'", marks=pytest.mark.acceptance),
        pytest.param("silently", "", "", marks=pytest.mark.acceptance),
    ],
)
def test_of_ranks_the_traceback_of_the_one_that_failed_first(how: str, first: str, last: str, tmp_path: Path) -> None:
    """And not that of torchrun, which comes last, nor of the rank whose neighbour has gone."""
    (tmp_path / "ranks.py").write_text(RANK)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "ranks.py", how]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert "ChildFailedError" in done.stdout
    told = shorten(done.stdout)
    assert "ChildFailedError" not in told
    if last:
        assert told.startswith(first)
        assert told.splitlines()[-1].startswith(last)
        assert "site-packages" not in told
    else:  # torch tells of the other rank alone
        assert "rank 0" in told or told.endswith("rank 1 ended with exit code 7")


BROKEN = "import torch\n\ndef f(:\n    pass\n"


def test_where_the_error_is(tmp_path: Path) -> None:
    script, data = tmp_path / "bad.py", tmp_path / "data.txt"
    for path in (script, data):
        path.write_text(BROKEN)
    with pytest.raises(ScriptError, match="in line 3") as found:
        require_syntax(script)
    assert (found.value.exit_code, found.value.script) == (1, "bad.py")
    assert "def f(:" in found.value.output
    script.write_text("x = '\\d'\n")
    for fine in (script, data, tmp_path / "absent.py", ""):
        require_syntax(fine)


@pytest.mark.parametrize(
    ("command", "has_script"),
    [
        (["bad.py", "--epochs", "3"], True),
        ([sys.executable, "-u", "bad.py"], True),
        (["torchrun", "--nproc_per_node=2", "bad.py"], True),
        (["sh", "run.sh", "bad.py"], False),
        ([sys.executable, "-m", "pytest"], False),
    ],
)
def test_the_script_in_a_command(
    command: list[str], has_script: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(BROKEN)
    assert script_in(command) == "bad.py" * has_script


@pytest.mark.parametrize(
    "words",
    [
        "check part3 --data pictures",
        "check part1 cpu --data pictures",
        "measure train.py",
        "tune train.py",
        "memory train.py",
        "compare fine.py train.py",
        "record lines -- train.py",
        "record torch -- train.py",
        "record py-spy -- python train.py",
    ],
)
def test_it_is_said_before_anything_runs_or_is_drawn(words: str, workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BROKEN)
    (tmp_path / "fine.py").write_text("")
    said = workshop(*words.split())
    assert said.returncode == 5, said.stderr
    assert "a syntax error in line 3" in said.stdout + said.stderr
    assert not {"starting", "waiting", "measuring", "watching"} & set(said.stderr.split())
    assert {path.name for path in tmp_path.iterdir()} <= {"train.py", "fine.py", ".workshop"}


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        ([], "no process has loaded torch"),
        (
            [ProcessActivity(7, "a.py")],
            "torch is loaded in process 7 (a.py), but no batch of a DataLoader, forward or backward pass was seen",
        ),
        ([ProcessActivity(7, "a.py"), ProcessActivity(8, "a.py")], "torch is loaded in 2 processes, but no batch"),
        (
            [ProcessActivity(7, "a.py"), ProcessActivity(8, "b.py", batches=1, forwards=5, backwards=4)],
            "process 8 (b.py): 1 batch of a DataLoader, 5 forward passes, 4 backward passes, no step of",
        ),
        (
            [ProcessActivity(7, "a.py", forwards=5, transformed=5, optimizer_steps=5)],
            "5 steps of a torch optimizer; 5 of the forward passes inside of torch.func (grad, vmap), where no model",
        ),
        ([ProcessActivity(n, "a.py", optimizer_steps=n) for n in range(1, 6)], "; 2 other processes did likewise"),
        (
            [ProcessActivity(7, "a.py", fault="KeyError: 'x'")],
            "the workshop's probe failed in process 7: KeyError: 'x'",
        ),
    ],
)
def test_what_was_seen(seen: list[ProcessActivity], says: str, tmp_path: Path) -> None:
    for each in seen:
        note(ProcessActivity(each.pid, "before.py"), str(tmp_path))
        note(each, str(tmp_path))
    assert says in describe_activities(tmp_path)


def test_what_was_seen_fits_into_a_line_of_progress(tmp_path: Path) -> None:
    assert counted_activities(tmp_path) == "torch is not loaded yet"
    note(ProcessActivity(7, "a.py"), str(tmp_path))
    assert counted_activities(tmp_path) == "torch is loaded, no training yet"
    note(ProcessActivity(7, "a.py", batches=2, forwards=1), str(tmp_path))
    note(ProcessActivity(8, "a.py", batches=10), str(tmp_path))
    assert counted_activities(tmp_path) == "batches 12, forward 1, backward 0, optimizer 0, in 2 processes"
    note(ProcessActivity(8, "a.py"), str(tmp_path))
    note(ProcessActivity(7, "a.py", forwards=3), str(tmp_path))
    assert counted_activities(tmp_path) == "forward 3, backward 0, optimizer 0", "it makes its own batches"


def test_what_fails_before_anything_is_seen(tmp_path: Path) -> None:
    try:
        raise ImportError("no such hook")
    except ImportError as error:
        note_fault(error, str(tmp_path))
    assert "ImportError: no such hook (test_script_error.py, line" in describe_activities(tmp_path)


def test_a_folder_that_is_gone_is_no_fault(tmp_path: Path) -> None:
    note(ProcessActivity(7, "a.py"), str(tmp_path / "gone"))
