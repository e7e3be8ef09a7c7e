"""`workshop torchrun`: ranks that work, fail, are killed, or are stopped; and nothing is left running."""

import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest
from conftest import Run, ends
from script_runs import press_ctrl_c, started

RANKS = """
import os, sys, time
import torch
from torch import distributed
from torch.utils.data import DataLoader

def main():
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    for item in DataLoader(range(10_000), num_workers=1):
        distributed.all_reduce(torch.ones(1))
        if rank == 0 and item == 0:
            print("begun", flush=True)
        if sys.argv[1:] == ["fail"] and rank == 1 and item == 3:
            sys.exit(7)
        if sys.argv[1:] == ["end"] and item == 3:
            break
        time.sleep(0.05)
    distributed.destroy_process_group()

if __name__ == "__main__":
    main()
"""


def start(folder: Path, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Start two ranks, and wait until they have begun."""
    (folder / "ranks.py").write_text(RANKS)
    command = ("-m", "workshop", "torchrun", "--standalone", "--nproc_per_node=2", "ranks.py")
    return started(folder, *command, *arguments, ready="begun")


def rank_of(process: subprocess.Popen[str], rank: int) -> psutil.Process:
    children = psutil.Process(process.pid).children()
    return next(child for child in children if child.environ().get("RANK") == str(rank))


def own_words(process: subprocess.Popen[str]) -> list[str]:
    """The lines of the workshop itself; beside them, ranks may tell their own errors, and torch may warn."""
    _, errors = process.communicate(timeout=60)
    assert "ChildFailedError" not in errors, "torchrun's page about it"
    return [line for line in errors.splitlines() if line.startswith(("rank ", "stopped "))]


def test_a_rank_that_is_killed_ends_the_run_in_one_line(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        everything = psutil.Process(process.pid).children(recursive=True)
        assert len(everything) >= 4, "two ranks, and a worker of each"
        rank_of(process, 1).kill()
        assert own_words(process) == ["rank 1 was killed by SIGKILL; the other ranks have been ended"]
        assert process.returncode == 128 + signal.SIGKILL
        assert ends(process.pid)
        assert psutil.wait_procs(everything, timeout=5)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "code", "says"),
    [("fail", 7, ["rank 1 ended with exit code 7; the other ranks have been ended"]), ("end", 0, [])],
)
def test_ranks_that_end_by_themselves(what: str, code: int, says: list[str], tmp_path: Path) -> None:
    with start(tmp_path, what) as process:
        assert own_words(process) == says
        assert process.returncode == code


@pytest.mark.slow
def test_ctrl_c(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        everything = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.5)
        press_ctrl_c(process)
        assert own_words(process) == ["stopped by Ctrl-C"]
        assert process.returncode == 130
        assert psutil.wait_procs(everything, timeout=5)[1] == []


@pytest.mark.slow
def test_wrong_usage_is_told_by_torchrun(run: Run) -> None:
    done = run("-m", "workshop", "torchrun", "--nproc_per_node=2")
    assert done.returncode == 2
    assert "training_script" in done.stderr
