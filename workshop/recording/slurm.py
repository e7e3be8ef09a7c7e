"""A SLURM job script that records a run on all its nodes."""

import shlex


def job_script(recorder: list[str], command: list[str]) -> str:
    """Return a job script that runs a recorder on each node, and under it torchrun with a process for each GPU."""
    # The text stands between the double quotes of a shell.
    quoted = shlex.join(_after_torchrun(command)).translate({ord(character): f"\\{character}" for character in '\\"$`'})
    inner = [
        f"{shlex.join(recorder)} -- torchrun",
        "--nnodes=$SLURM_NNODES",
        "--nproc_per_node=${SLURM_GPUS_PER_NODE##*:}",
        "--rdzv_id=$SLURM_JOB_ID",
        r"--rdzv_conf=is_host=\$(((SLURM_NODEID)) && echo 0 || echo 1)",
        "--rdzv_backend=c10d",
        "--rdzv_endpoint=$head_node:29500",
        quoted,
    ]
    lines = " \\\n    ".join(inner)
    return f"""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=00:30:00
# Change these to what the job needs; then: sbatch FILE. No node writes into the recording of another.
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --cpu-bind=none --ntasks-per-node=1 --cpus-per-task=${{SLURM_CPUS_PER_TASK:-1}} \\
    bash -c "{lines}"
"""


def _after_torchrun(command: list[str]) -> list[str]:
    """Return a command without what torchrun does itself, such as starting Python."""
    if command[:2] == ["workshop", "torchrun"]:
        return command[2:]
    program = command[0].rpartition("/")[2]
    if program == "torchrun" or program.startswith("python"):
        return command[1:]
    return command if program.endswith(".py") else ["--no-python", *command]
