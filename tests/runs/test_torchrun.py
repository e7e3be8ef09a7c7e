"""`workshop torchrun`: ranks that work, fail, are killed, or are stopped; and nothing is left running."""

import logging
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from conftest import Run, ends
from script_runs import press_ctrl_c, started
from torch.distributed import run as original
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from workshop.probe.settings import RUN_VARIABLE

RANKS = """
import time
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
        time.sleep(0.05)
    distributed.destroy_process_group()

if __name__ == "__main__":
    main()
"""


OTHERS = "; the other ranks have been ended"


def failed(code: int) -> ChildFailedError:
    """What torchrun raises where rank 1 has ended with a code, which is negative for a signal."""
    return ChildFailedError("ranks.py", {1: ProcessFailure(1, 99, code, os.devnull)})


@pytest.mark.parametrize(
    ("ranks", "error", "code", "says"),
    [
        (2, None, 0, ""),
        (2, failed(7), 7, f"rank 1 ended with exit code 7{OTHERS}"),
        (1, failed(7), 7, "rank 1 ended with exit code 7"),
        (2, failed(-9), 137, f"rank 1 was killed by SIGKILL{OTHERS}"),
        (2, SignalException("stopped", signal.SIGINT), 130, "stopped by Ctrl-C"),
        (2, ValueError("no GPU\nmany lines"), 2, "torchrun: no GPU"),
    ],
)
def test_what_torchrun_raises_is_told_in_one_line(
    ranks: int, error: Exception | None, code: int, says: str, workshop: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[SimpleNamespace] = []

    def torchrun(options: SimpleNamespace) -> None:
        seen.append(SimpleNamespace(script=options.training_script, mark=os.environ[RUN_VARIABLE]))
        if error:
            raise error

    monkeypatch.setattr(original, "run", torchrun)
    monkeypatch.setenv(RUN_VARIABLE, "/tmp/outer")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    try:
        done = workshop("torchrun", f"--nproc_per_node={ranks}", "ranks.py")
    finally:
        logging.disable(logging.NOTSET)
    assert (done.returncode, done.stderr.strip()) == (code, says)
    [run] = seen
    assert run.script == "ranks.py"
    assert run.mark.startswith("/tmp/outer torchrun "), "it contains that of whoever records it"


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        pytest.param("killed", 137, f"rank 1 was killed by SIGKILL{OTHERS}", marks=pytest.mark.slow),
        pytest.param("Ctrl-C", 130, "stopped by Ctrl-C", marks=pytest.mark.acceptance),
    ],
)
def test_the_end_is_told_in_one_line_and_nothing_is_left(how: str, code: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    command = ("-m", "workshop", "torchrun", "--standalone", "--nproc_per_node=2", "ranks.py")
    with started(tmp_path, *command, ready="begun") as process:
        everything = psutil.Process(process.pid).children(recursive=True)
        if how == "killed":
            assert len(everything) >= 4, "two ranks, and a worker of each"
            ranks = psutil.Process(process.pid).children()
            next(rank for rank in ranks if rank.environ().get("RANK") == "1").kill()
        else:
            press_ctrl_c(process)
        _, errors = process.communicate(timeout=60)
        assert "ChildFailedError" not in errors, "torchrun's page about it"
        # Beside the workshop, ranks may tell their own errors, and torch may warn.
        assert [line for line in errors.splitlines() if line.startswith(("rank ", "stopped "))] == [says]
        assert process.returncode == code
        assert ends(process.pid)
        assert psutil.wait_procs(everything, timeout=20)[1] == []


def test_wrong_usage_is_told_by_torchrun(workshop: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_VARIABLE, "")
    try:
        done = workshop("torchrun", "--nproc_per_node=2")
    finally:
        logging.disable(logging.NOTSET)
    assert done.returncode == 2
    assert "training_script" in done.stderr
