"""NVIDIA's Nsight Systems around a command, with the phases of each step as NVTX ranges."""

import getpass
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.probe.settings import NVTX_VARIABLE
from workshop.recording.output_paths import output_path
from workshop.recording.run import RecordedRun, Run, as_command
from workshop.runs.machine import gpus
from workshop.runs.script import probe_environment

WHERE = "https://developer.nvidia.com/nsight-systems"

IMPORTERS = (
    "host-linux-*/QdstrmImporter",  # beside NVIDIA's own target-linux-x64/nsys
    "lib/nsight-systems/host-linux-*/QdstrmImporter",  # below Debian's /usr
)
"""Where nsys keeps the program that makes a report of what it has recorded, below one of the folders that it is in."""


@dataclass(frozen=True)
class NsysRecording(RecordedRun):
    """What a run under nsys has left; the exit code of nsys is the command's."""

    report: Path | None
    """The report; None if there is none."""
    tables: Path | None
    """The report as an SQLite file, which `workshop trace` reads; None if it could not be made."""


def command_line(
    command: list[str], output: str, libraries: str, gpu_metrics: str, run_as: str
) -> tuple[list[str], Path]:
    """Return the full `nsys profile` command line that records a command, and the path of its report.

    Samples of the CPU are left out: they make 2 GB of ten seconds, and py-spy takes better ones.

    Args:
        command: a script with its arguments, or any command that starts Python.
        output: the report, without its suffix.
        libraries: the libraries whose calls are recorded, with commas between.
        gpu_metrics: the devices whose hardware counters are sampled, which needs special rights; "" for none. There are
            none, either, where there is no GPU.
        run_as: the user who runs the command where root runs nsys; "me" for whoever called sudo.

    Raises:
        WorkshopError: there is no such command.
        OSError: the folder for the report cannot be made.
    """
    inner = as_command(command)
    report = output_path(f"{output}.nsys-rep", "")
    flags = [f"--trace={libraries}", "--cuda-memory-usage=true", "--sample=none", "--cpuctxsw=none"]
    flags.append(f"--output={report.with_suffix('')}")
    if gpu_metrics and gpus():
        flags.append(f"{_spelling('--gpu-metrics-devices', '--gpu-metrics-device')}={gpu_metrics}")
    if run_as == "me":
        run_as = os.environ.get("SUDO_USER") or getpass.getuser()
    if run_as:
        flags.append(f"--run-as={run_as}")
    variables = [f"{name}={value}" for name, value in (probe_environment() | {NVTX_VARIABLE: "1"}).items()]
    return ["nsys", "profile", *flags, "env", *variables, *inner], report


def record(line: list[str], report: Path) -> NsysRecording:
    """Run an `nsys profile` command line, and make of what it leaves its report, and tables of the report.

    Raises:
        WorkshopError: nsys has left what only its importer can read, and that is not installed, or fails.
    """
    with tempfile.TemporaryDirectory(prefix="workshop-nsys-") as folder:
        run = Run(line, folder, {})
        run.wait()
    raw = report.with_suffix(".qdstrm")
    if raw.exists() and not report.exists():
        _import(raw)
    if not report.exists():
        return NsysRecording(None, None, **run.ended())
    tables = report.with_suffix(".sqlite")
    export = ["nsys", "export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(tables), str(report)]
    done = subprocess.run(export, capture_output=True)
    made = tables if done.returncode == 0 and tables.exists() else None
    return NsysRecording(report, made, **run.ended())


def _import(raw: Path) -> None:
    """Make a report of what nsys has recorded, as nsys itself does where it finds its importer."""
    if not (importer := find_importer()):
        raise WorkshopError(
            f"nsys has left {raw}, and its QdstrmImporter, which makes a report of that, is not installed here; "
            f"run it elsewhere: QdstrmImporter -i {raw}"
        )
    done = subprocess.run([importer, "-i", raw], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise WorkshopError(f"{importer} cannot make a report of {raw}: {' '.join(last)}")
    raw.unlink()


def find_importer() -> Path | None:
    """Return the path of nsys' QdstrmImporter, if it is installed."""
    nsys = Path(shutil.which("nsys") or "/nsys")
    folders = [*nsys.parents[:3], *nsys.resolve().parents[:3]]
    return next((path for folder in folders for pattern in IMPORTERS for path in folder.glob(pattern)), None)


def _spelling(*options: str) -> str:
    """Return the first of some spellings of an option that the installed nsys has; the first of all without an nsys."""
    if not shutil.which("nsys"):
        return options[0]
    told = subprocess.run(["nsys", "profile", "--help"], capture_output=True, text=True).stdout
    return next((option for option in options if re.search(rf"{option}\b", told)), options[0])
