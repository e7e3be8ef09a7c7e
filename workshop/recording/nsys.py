"""NVIDIA's Nsight Systems around a command, with the phases of each step as NVTX ranges."""

import getpass
import os
from dataclasses import dataclass

from workshop.probe.wire import NVTX_VARIABLE
from workshop.processes import injection
from workshop.recording.output_paths import output_path
from workshop.recording.torch_profiler import as_command

SUFFIX = ".nsys-rep"
ME = "me"
WHERE = "https://developer.nvidia.com/nsight-systems"


@dataclass(frozen=True)
class NsysOptions:
    """What nsys is to record."""

    trace: str = "cuda,nvtx,osrt,cudnn,cublas"
    """The libraries whose calls are recorded."""
    gpu_metrics: str = "all"
    """The devices whose counters are sampled, which takes rights that few have; "" for none."""
    run_as: str = ""
    """The user who runs the command where root runs nsys; `ME` for whoever called sudo."""


def command_line(command: list[str], output: str, options: NsysOptions) -> list[str]:
    """Return what one would type: `nsys profile` with its flags, and the command.

    Args:
        command: a script with its arguments, or any command that starts Python.
        output: the report, without its suffix.
        options: what to record.

    Raises:
        WorkshopError: there is no such command.
        OSError: the folder for the report cannot be made.
    """
    inner = as_command(command)
    flags = [
        f"--trace={options.trace}",
        "--cuda-memory-usage=true",
        f"--output={output_path(output + SUFFIX, '').with_suffix('')}",
    ]
    if options.gpu_metrics:
        flags.append(f"--gpu-metrics-devices={options.gpu_metrics}")
    if options.run_as:
        flags.append(f"--run-as={_me() if options.run_as == ME else options.run_as}")
    variables = [f"{name}={value}" for name, value in (injection.environment() | {NVTX_VARIABLE: "1"}).items()]
    return ["nsys", "profile", *flags, "env", *variables, *inner]


def _me() -> str:
    return os.environ.get("SUDO_USER") or getpass.getuser()
