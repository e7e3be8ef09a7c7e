"""Finds out whether this machine is ready for the workshop: a function for each question, a row for its answer."""

import contextlib
import importlib.metadata
import multiprocessing
import os
import platform
import re
import resource
import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Literal

from workshop.errors import first_line
from workshop.pets.layout import status_of_sets
from workshop.probe.own_limits import usable_cores
from workshop.recording import py_spy
from workshop.runs.machine import core_quota, free_shared_memory, gpus, own_executable
from workshop.runs.other_load import LoadMeter, OtherLoad

TRIED = {
    "Python": ("3.11", "3.13"),
    "torch": ("2.5", "2.15"),
    "torchvision": ("0.20", "0.29"),
    "line_profiler": ("5.1", "5.1"),
    "nvitop": ("1.4", "1.7"),
    "tqdm": ("4.66", "4.70"),
    "typer": ("0.21.2", "0.29"),
    "rich": ("13.7", "15.0"),
    "filelock": ("3.13", "4.3"),
    "numpy": ("1.26", "2.5"),
    "pillow": ("10.0", "13.0"),
    "psutil": ("5.9.8", "7.2"),
    "py-spy": ("0.4.3", "0.4.3"),
    "msgspec": ("0.19", "0.22"),
}
"""The oldest and the newest of each that `.ci/matrix` is made for; benchmarks/README.md says which rows were run."""

Status = Literal["ok", "warn", "fail"]

_OLD_DRIVER = re.compile(r"driver on your system is too old \(found version (?P<version>\d+)\)")


@dataclass(frozen=True)
class CheckResult:
    """What was found; "warn" means that a part of the workshop suffers, "fail" that the workshop cannot run."""

    name: str
    status: Status
    found: str
    remedy: str = ""


def examine(data: Path) -> list[CheckResult]:
    """Run every check; `data` is the data folder. Takes some seconds, as it loads torch and starts py-spy."""
    with LoadMeter() as meter:
        found = [check_python(), check_torch(), check_torchvision(), *check_versions(), check_device(), check_cores()]
    return [
        *found,
        check_load(meter.end()),
        check_shared_memory(),
        check_start_method(),
        check_open_files(),
        check_temporary_folder(),
        check_working_folder(),
        check_kernprof(),
        check_terminal(),
        check_py_spy(),
        check_nvitop(),
        check_disk(data),
        *check_data(data),
    ]


def _warn_if(suffers: bool, name: str, found: str, remedy: str) -> CheckResult:
    return CheckResult(name, "warn", found, remedy) if suffers else CheckResult(name, "ok", found)


def check_python() -> CheckResult:
    """Check the version of Python: one that is too old cannot install the workshop, but may run it from its folder."""
    found, oldest = f"{sys.version.split()[0]} at {sys.executable}", TRIED["Python"][0]
    if _version_numbers(platform.python_version()) < _version_numbers(oldest):
        return CheckResult("Python", "fail", found, f"install Python {oldest} or newer")
    return CheckResult("Python", "ok", found)


def check_torch() -> CheckResult:
    """Check that torch is installed and not broken."""
    try:
        import torch
    except Exception as error:  # a broken installation fails in many ways
        return CheckResult("torch", "fail", first_line(error), "pip install torch torchvision")
    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    return CheckResult("torch", "ok", f"{torch.__version__}, built {built}")


def check_torchvision() -> CheckResult:
    """Check that torchvision can be imported, which fails if it was built for another torch."""
    try:
        import torchvision
    except Exception as error:
        remedy = "pip install --force-reinstall torch torchvision, both in one command"
        return CheckResult("torchvision", "fail", first_line(error), remedy)
    return CheckResult("torchvision", "ok", f"{torchvision.__version__}, fits torch")


def check_versions() -> list[CheckResult]:
    """Name what is older or newer than what the workshop was tried with; it may work all the same."""
    results, remedy = list[CheckResult](), "if something fails, install a version that was tried"
    for name, (oldest, newest) in TRIED.items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = platform.python_version() if name == "Python" else importlib.metadata.version(name)
            this, first, last = map(_version_numbers, (version, oldest, newest))
            if this < first or this[: len(last)] > last:
                side = "older" if this < first else "newer"
                found = f"{name} {version} is {side} than what the workshop was tried with ({oldest} to {newest})"
                results.append(CheckResult("versions", "warn", found, remedy))
    return results


def _version_numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]


def check_device() -> CheckResult:
    """Check what training would run on; if the driver is too old for torch, torch only warns and trains on the CPU."""
    try:
        import torch

        from workshop.device import available_devices

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            devices = available_devices()
    except Exception as error:
        return CheckResult("device", "fail", first_line(error), "see torch above")
    if old := next(filter(None, (_OLD_DRIVER.search(str(warning.message)) for warning in warned)), None):
        major, minor = divmod(int(old["version"]), 1000)  # 11040 is CUDA 11.4
        found = f"cpu alone: the NVIDIA driver is too old for torch, it knows CUDA {major}.{minor // 10}"
        remedy = "update the driver, or install a torch built for that CUDA: https://pytorch.org/get-started"
        return CheckResult("device", "warn", found, remedy)
    if devices == ["cpu"] and shutil.which("nvidia-smi"):
        remedy = "there is an NVIDIA driver: install a torch built for CUDA, or a newer driver"
        if torch.version.cuda and not any("CUDA" in str(warning.message) for warning in warned):
            remedy = "torch sees no GPU: ask the cluster for one, or see whether CUDA_VISIBLE_DEVICES hides it"
        return CheckResult("device", "warn", "cpu alone", remedy)
    note = "; no CUDA, so copies to a GPU cannot be timed" if devices == ["cpu"] else ""
    return CheckResult("device", "ok", ", ".join(devices) + note)


def check_cores() -> CheckResult:
    """Check for two cores: with one, workers and training take turns."""
    usable, quota = usable_cores(), core_quota()
    found = f"{usable} of {os.cpu_count()} usable" + (f", limited to {quota:g} by the container" if quota else "")
    too_few = min(usable, quota or usable) < 2
    return _warn_if(too_few, "cores", found, "timings want two or more; ask for more cores")


def check_load(load: OtherLoad) -> CheckResult:
    """Check that the cores are free: beside another training, all measured times are longer."""
    if not load.busy:
        known = load.other_cores is not None
        return CheckResult("load", "ok", "no other program uses the cores" if known else "not known here")
    found = f"other programs use {load.other_cores:.1f} of {load.usable_cores:g} cores"
    remedy = f"before you measure, close {load.most}" if load.most else "measure when the machine is quiet"
    return CheckResult("load", "warn", f"{found}: checks take longer, or end undecided", remedy)


def check_shared_memory() -> CheckResult:
    """Check the room in /dev/shm, in which DataLoader workers hand their batches over."""
    if sys.platform != "linux":
        return CheckResult("/dev/shm", "ok", f"not used on {sys.platform}")
    free_bytes = free_shared_memory()
    if free_bytes is None:
        return CheckResult("/dev/shm", "fail", "not there", "mount a tmpfs at /dev/shm")
    found = f"{free_bytes / 2**20:,.0f} MiB free"
    # A float32 batch of 32 items at 224 pixels is 19 MB, and every worker keeps two of them ready.
    remedy = "workers may die of a bus error: docker run --shm-size=2g, or fewer workers"
    return _warn_if(free_bytes < 512 * 2**20, "/dev/shm", found, remedy)


def check_start_method() -> CheckResult:
    """Say how DataLoader workers are started here."""
    method = multiprocessing.get_start_method()
    meaning = "workers start as copies" if method == "fork" else "workers import the script anew"
    return CheckResult("start method", "ok", f"{method}: {meaning}")


def check_open_files() -> CheckResult:
    """Check the limit of open files: on Linux, every tensor that a worker hands over may hold a file open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = "unlimited" if soft == resource.RLIM_INFINITY else f"at most {soft}"
    enough = 1024 if sys.platform == "linux" else 256  # elsewhere torch shares tensors by name and keeps no file open
    too_few = soft != resource.RLIM_INFINITY and soft < enough
    return _warn_if(too_few, "open files", found, "workers need many: ulimit -n 4096")


def check_temporary_folder() -> CheckResult:
    """Check that a socket can be made where DataLoader workers make theirs, to hand batches over."""
    try:
        with Listener(family="AF_UNIX"):
            return CheckResult("TMPDIR", "ok", tempfile.gettempdir())
    except OSError as error:
        where = os.environ.get("TMPDIR", "/tmp")
        found = f"workers cannot hand batches over in {where}: {first_line(error)}"
        return CheckResult("TMPDIR", "fail", found, "export TMPDIR=/tmp, or another short path that can be written")


def check_working_folder() -> CheckResult:
    """Check that this folder can be written, in which commands keep what they record and what has been done."""
    may = os.access(".", os.W_OK | os.X_OK)
    remedy = "go to a folder of your own; or name another place with -o, and do without `done`"
    return _warn_if(not may, "this folder", f"may{'' if may else ' not'} be written", remedy)


def check_kernprof() -> CheckResult:
    """Check that the command kernprof is that of this environment; another one would not find torch."""
    try:
        version = importlib.metadata.version("line_profiler")
    except importlib.metadata.PackageNotFoundError:
        return CheckResult("kernprof", "fail", "line_profiler is not installed", "pip install line_profiler")
    first, own = shutil.which("kernprof"), own_executable("kernprof")
    if first and own and Path(first).samefile(own):
        return CheckResult("kernprof", "ok", version)
    found = f"{version}, but the command kernprof is " + (f"another one, {first}" if first else "not on PATH")
    return CheckResult("kernprof", "warn", found, "activate this environment, or type python -m kernprof")


def check_terminal() -> CheckResult:
    """Check that kernprof's table fits; a narrow terminal breaks its rows."""
    if not sys.stdout.isatty() or "JPY_PARENT_PID" in os.environ:  # a cell of a notebook only says that it is one
        return CheckResult("terminal", "ok", "none here")
    columns, needed = shutil.get_terminal_size().columns, 135  # of kernprof's table of train.py
    remedy = f"kernprof's table has {needed}: make the window wider, or see it by workshop lines"
    return _warn_if(columns < needed, "terminal", f"{columns} columns", remedy)


def check_py_spy() -> CheckResult:
    """Check that py-spy may attach to processes, which depends on system, container and user."""
    try:
        complaint, version = py_spy.why_no_access(), py_spy.version()
    except py_spy.NoPySpyError as error:
        return CheckResult("py-spy", "warn", error.found, error.remedy)
    if not complaint:
        return CheckResult("py-spy", "ok", f"{version}, may attach (ptrace)")
    remedy = "docker run --cap-add=SYS_PTRACE; on macOS, sudo" if sys.platform in ("linux", "darwin") else ""
    return CheckResult("py-spy", "warn", f"may not attach (ptrace): {complaint}", remedy)


def check_nvitop() -> CheckResult:
    """Check that nvitop is installed; its screen needs an NVIDIA driver, its library does not."""
    try:
        import nvitop
    except ImportError as error:
        return CheckResult("nvitop", "warn", first_line(error), "pip install nvitop")
    count = len(gpus())
    sees = f"sees {count} GPU{'s' * (count > 1)}" if count else "but no NVIDIA GPU: its screen does not start here"
    return CheckResult("nvitop", "ok", f"{nvitop.__version__}, {sees}")


def check_data(data: Path) -> list[CheckResult]:
    """Check that no set of pictures is incomplete; one that is absent is fetched or drawn when it is needed."""
    found = []
    for each in status_of_sets(data):
        bad = each.state == "incomplete"
        found.append(CheckResult(each.name, "fail" if bad else "ok", each.found, each.remedy if bad else ""))
    return found


def check_disk(data: Path) -> CheckResult:
    """Check that there is room in the data folder, or in the first one above it that exists."""
    folder = next(parent for parent in (data.absolute(), *data.absolute().parents) if os.path.lexists(parent))
    another = "name another data folder with --data"
    if not folder.is_dir():
        return CheckResult("disk", "fail", f"{folder} is not a folder", another)
    free_bytes = shutil.disk_usage(folder).free
    found = f"{free_bytes / 1e9:,.1f} GB free in {folder}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return CheckResult("disk", "warn", f"{folder} may not be written", another)
    remedy = "free some space: the photos need 1.7 GB as they are fetched, the stand-in 0.1 GB"
    return _warn_if(free_bytes < 2e9, "disk", found, remedy)
