"""`workshop torchrun`: ranks that work, fail, are killed, or are stopped; and nothing is left running."""

import signal
import time
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


OTHERS = "; the other ranks have been ended"


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("killed", 128 + signal.SIGKILL, [f"rank 1 was killed by SIGKILL{OTHERS}"]),
        pytest.param("fail", 7, [f"rank 1 ended with exit code 7{OTHERS}"], marks=pytest.mark.slow),
        pytest.param("end", 0, [], marks=pytest.mark.slow),
        pytest.param("Ctrl-C", 130, ["stopped by Ctrl-C"], marks=pytest.mark.slow),
    ],
)
def test_the_end_is_told_in_one_line_and_nothing_is_left(how: str, code: int, says: list[str], tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    command = ("-m", "workshop", "torchrun", "--standalone", "--nproc_per_node=2", "ranks.py", how)
    with started(tmp_path, *command, ready="begun") as process:
        everything = psutil.Process(process.pid).children(recursive=True)
        if how == "killed":
            assert len(everything) >= 4, "two ranks, and a worker of each"
            ranks = psutil.Process(process.pid).children()
            next(rank for rank in ranks if rank.environ().get("RANK") == "1").kill()
        elif how == "Ctrl-C":
            time.sleep(0.5)
            press_ctrl_c(process)
        _, errors = process.communicate(timeout=60)
        assert "ChildFailedError" not in errors, "torchrun's page about it"
        # Beside the workshop, ranks may tell their own errors, and torch may warn.
        assert [line for line in errors.splitlines() if line.startswith(("rank ", "stopped "))] == says
        assert process.returncode == code
        assert ends(process.pid)
        assert psutil.wait_procs(everything, timeout=5)[1] == []


@pytest.mark.slow
def test_wrong_usage_is_told_by_torchrun(run: Run) -> None:
    done = run("-m", "workshop", "torchrun", "--nproc_per_node=2")
    assert done.returncode == 2
    assert "training_script" in done.stderr
