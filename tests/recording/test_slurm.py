"""Job scripts for SLURM: the shell makes of them what it should; only SLURM itself is played."""

import subprocess
from pathlib import Path

import pytest
from conftest import Run

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
def test_the_job_script(asked: list[str], recorder: list[str], start: list[str], workshop: Run, tmp_path: Path) -> None:
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
