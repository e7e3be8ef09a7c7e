"""NVIDIA's Nsight Systems around a command, with the phases of each step as NVTX ranges."""

import getpass
import os

from workshop.probe.settings import NVTX_VARIABLE
from workshop.processes.script import probe_environment
from workshop.recording.command import as_command
from workshop.recording.output_paths import output_path

WHERE = "https://developer.nvidia.com/nsight-systems"


def command_line(command: list[str], output: str, libraries: str, gpu_metrics: str, run_as: str) -> list[str]:
    """Return the full `nsys profile` command line that records a command.

    Args:
        command: a script with its arguments, or any command that starts Python.
        output: the report, without its suffix.
        libraries: the libraries whose calls are recorded, with commas between.
        gpu_metrics: the devices whose hardware counters are sampled, which needs special rights; "" for none.
        run_as: the user who runs the command where root runs nsys; "me" for whoever called sudo.

    Raises:
        WorkshopError: there is no such command.
        OSError: the folder for the report cannot be made.
    """
    inner = as_command(command)
    report = output_path(f"{output}.nsys-rep", "").with_suffix("")
    flags = [f"--trace={libraries}", "--cuda-memory-usage=true", f"--output={report}"]
    if gpu_metrics:
        flags.append(f"--gpu-metrics-devices={gpu_metrics}")
    if run_as == "me":
        run_as = os.environ.get("SUDO_USER") or getpass.getuser()
    if run_as:
        flags.append(f"--run-as={run_as}")
    variables = [f"{name}={value}" for name, value in (probe_environment() | {NVTX_VARIABLE: "1"}).items()]
    return ["nsys", "profile", *flags, "env", *variables, *inner]
