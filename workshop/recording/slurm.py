"""The part of a SLURM job script that records a run on all its nodes."""

import shlex


def srun_block(recorder: list[str], command: list[str]) -> str:
    """One task a node, each with its own recorder, and in that torchrun, which starts a process for each GPU.

    Args:
        recorder: what stands before the command, itself with its flags.
        command: the training, with torchrun or without.
    """
    inner = [
        f"{shlex.join(recorder)} -- torchrun",
        "--nnodes=$SLURM_NNODES",
        "--nproc_per_node=$SLURM_GPUS_PER_NODE",
        "--rdzv_id=$SLURM_JOB_ID",
        r"--rdzv_conf=is_host=\$(((SLURM_NODEID)) && echo 0 || echo 1)",
        "--rdzv_backend=c10d",
        "--rdzv_endpoint=$head_node:29500",
        _quoted(shlex.join(_for_torchrun(command))),
    ]
    lines = " \\\n    ".join(inner)
    return f"""\
# In the job script, after #SBATCH --nodes=… and --gpus-per-node=…: each node writes a recording of its own.
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --cpu-bind=none --ntasks-per-node=1 \\
    bash -c "{lines}"
"""


def _for_torchrun(command: list[str]) -> list[str]:
    """What follows torchrun: it starts Python itself."""
    program = command[0].rpartition("/")[2]
    if program == "torchrun" or program.startswith("python"):
        return command[1:]
    return command if program.endswith(".py") else ["--no-python", *command]


def _quoted(text: str) -> str:
    """Inside double quotes of a shell."""
    for character in '\\"$`':
        text = text.replace(character, f"\\{character}")
    return text
