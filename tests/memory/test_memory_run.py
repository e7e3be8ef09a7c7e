"""A process that the system has killed is told from a script that has crashed."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_memory import TRAINER, report, segment

from workshop.memory.host_watch import HostWatch
from workshop.memory.memory_run import _killed, _measured
from workshop.probe import wire
from workshop.probe.messages import WarmUp
from workshop.runs.script_error import ScriptError

WORKER = "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed. "

RANK = """
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_12:00:00
  host      : here
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 4242)
  error_file: <N/A>
"""


@pytest.mark.parametrize(
    ("code", "output", "says"),
    [
        (-9, "", "was killed by SIGKILL after 3 steps"),
        (1, WORKER, "ended with code 1 after 3 steps, as a worker of a DataLoader was killed by SIGKILL"),
        (1, RANK.format(code=-9), "ended with code 1 after 3 steps, as a rank was killed by SIGKILL"),
        (1, RANK.format(code=1), ""),
        (1, "DataLoader worker (pid 4242) is killed by signal: Segmentation fault.", ""),
        (1, "ValueError: wrong", ""),
    ],
)
def test_how_it_was_killed(code: int, output: str, says: str) -> None:
    assert _killed(ScriptError("", code, output, "train.py", when="after 3 steps")) == says


def test_the_steps_are_those_of_the_rank_that_has_run_out_of_memory(tmp_path: Path) -> None:
    for pid, failure in ((TRAINER, ""), (8, "DefaultCPUAllocator: can't allocate memory")):
        noted = replace(segment(5, failure=failure), pid=pid)
        (tmp_path / f"{pid}.jsonl").write_bytes(wire.encode(noted).encode() + b"\n")
    of_lead, of_other = report(1.0), replace(report(2.0), pid=8)
    run: Any = SimpleNamespace(
        script=SimpleNamespace(folder=tmp_path, trainers={0: [TRAINER], 1: [8]}),
        lead=0,
        others={1: [replace(of_other, stage=WarmUp()), of_other]},
        error=ScriptError("it ended with code 1 after 3 steps", 1, "", "train.py"),
        interrupted=False,
    )
    found = _measured(run, HostWatch(), [of_lead], "train.py")
    assert found.record.failed is not None
    assert found.record.failed.pid == 8
    assert found.reports == [of_other]
    assert found.crash is run.error
