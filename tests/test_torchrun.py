"""`workshop torchrun`: ranks that work, fail, are killed, or are stopped; and nothing is left running."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import Run, ends

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

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start two ranks in a process group of their own, and wait until they have begun."""
    (tmp_path / "ranks.py").write_text(RANKS)
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "workshop", "torchrun", "--standalone", "--nproc_per_node=2", "ranks.py"]
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def rank_of(process: subprocess.Popen[str], rank: int) -> psutil.Process:
    children = psutil.Process(process.pid).children()
    return next(child for child in children if child.environ().get("RANK") == str(rank))


def said(process: subprocess.Popen[str]) -> str:
    """All that it says until its end, less what torch warns of at the beginning."""
    _, errors = process.communicate(timeout=60)
    return "\n".join(line for line in errors.splitlines() if line and "Warning" not in line and "warn" not in line)


def test_a_rank_that_is_killed_ends_the_run_in_one_line(start: Start) -> None:
    process = start()
    everything = psutil.Process(process.pid).children(recursive=True)
    assert len(everything) >= 4, "two ranks, and a worker of each"
    rank_of(process, 1).kill()
    assert said(process) == "rank 1 was killed by SIGKILL; the other ranks have been ended"
    assert process.returncode == 128 + signal.SIGKILL
    assert ends(process.pid)
    assert psutil.wait_procs(everything, timeout=5)[1] == []


@pytest.mark.slow
def test_a_rank_that_fails(start: Start) -> None:
    process = start("fail")
    assert "rank 1 ended with exit code 7; the other ranks have been ended" in said(process)
    assert process.returncode == 7


@pytest.mark.slow
def test_ranks_that_come_to_their_end(start: Start) -> None:
    process = start("end")
    assert said(process) == ""
    assert process.returncode == 0


@pytest.mark.slow
def test_ctrl_c(start: Start) -> None:
    process = start()
    everything = psutil.Process(process.pid).children(recursive=True)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    assert said(process).splitlines()[-1] == "stopped by Ctrl-C"
    assert process.returncode == 130
    assert psutil.wait_procs(everything, timeout=5)[1] == []


def test_wrong_usage_is_told_by_torchrun(run: Run) -> None:
    done = run("-m", "workshop", "torchrun", "--nproc_per_node=2")
    assert done.returncode == 2
    assert "training_script" in done.stderr
