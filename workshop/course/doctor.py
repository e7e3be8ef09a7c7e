"""Is this machine ready for the workshop? One function a question, one row an answer."""

import contextlib
import importlib.metadata
import io
import multiprocessing
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workshop.errors import WorkshopError, first_line
from workshop.pets.status import report
from workshop.processes.cores import core_quota, usable_cores
from workshop.processes.executables import own_executable
from workshop.recording import py_spy

OLDEST_PYTHON = (3, 11)
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
    """Ask every question; `data` is the data folder. Takes some seconds, as it loads torch and starts py-spy."""
    checks: list[Callable[[], CheckResult]] = [
        check_python,
        check_torch,
        check_torchvision,
        check_device,
        check_cores,
        check_shared_memory,
        check_start_method,
        check_open_files,
        check_kernprof,
        check_py_spy,
        check_nvitop,
    ]
    return [*(check() for check in checks), check_disk(data), *check_data(data)]


def check_python() -> CheckResult:
    """One too old could not have installed the workshop, but may run it from its folder."""
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return CheckResult("Python", "fail", found, f"install Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer")
    return CheckResult("Python", "ok", found)


def check_torch() -> CheckResult:
    """The installation may be missing or broken."""
    try:
        import torch
    except Exception as error:  # a broken installation fails in many ways
        return CheckResult("torch", "fail", first_line(error), "pip install torch torchvision")
    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    return CheckResult("torch", "ok", f"{torch.__version__}, built {built}")


def check_torchvision() -> CheckResult:
    """A torchvision made for another torch fails as it is imported."""
    try:
        import torchvision
    except Exception as error:
        remedy = "pip install --force-reinstall torch torchvision, both in one command"
        return CheckResult("torchvision", "fail", first_line(error), remedy)
    return CheckResult("torchvision", "ok", f"{torchvision.__version__}, fits torch")


def check_device() -> CheckResult:
    """What training would run on. Of a driver that is too old for it, torch only warns, and trains on the CPU."""
    try:
        from workshop.device import available_devices

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            devices = available_devices()
    except Exception as error:
        return CheckResult("device", "fail", first_line(error), "see torch above")
    if old := next(filter(None, (_OLD_DRIVER.search(str(each.message)) for each in warned)), None):
        found = f"cpu alone: the NVIDIA driver is too old for torch, it knows CUDA {_cuda_version(old['version'])}"
        remedy = "update the driver, or install a torch built for that CUDA: https://pytorch.org/get-started"
        return CheckResult("device", "warn", found, remedy)
    if devices == ["cpu"] and shutil.which("nvidia-smi"):
        remedy = "there is an NVIDIA driver: install a torch built for CUDA, or a newer driver"
        return CheckResult("device", "warn", "cpu alone", remedy)
    note = "; no CUDA, so copies to a GPU cannot be timed" if devices == ["cpu"] else ""
    return CheckResult("device", "ok", ", ".join(devices) + note)


def _cuda_version(number: str) -> str:
    """A version of CUDA as people write it: 11040 is 11.4."""
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"


def check_cores() -> CheckResult:
    """With one core, workers and training take turns."""
    usable, quota = usable_cores(), core_quota()
    found = f"{usable} of {os.cpu_count()} usable" + (f", limited to {quota:g} by the container" if quota else "")
    if min(usable, quota or usable) < 2:
        return CheckResult("cores", "warn", found, "timings want two or more; ask for more cores")
    return CheckResult("cores", "ok", found)


def check_shared_memory() -> CheckResult:
    """DataLoader workers hand their batches over in /dev/shm."""
    folder = Path("/dev/shm")
    if sys.platform != "linux":
        return CheckResult("/dev/shm", "ok", f"not used on {sys.platform}")
    if not folder.is_dir():
        return CheckResult("/dev/shm", "fail", "not there", "mount a tmpfs at /dev/shm")
    free_bytes = shutil.disk_usage(folder).free
    found = f"{free_bytes / 2**20:,.0f} MiB free"
    # A float32 batch of 32 items at 224 pixels is 19 MB, and every worker keeps two of them ready.
    if free_bytes < 512 * 2**20:
        remedy = "workers may die of a bus error: docker run --shm-size=2g, or fewer workers"
        return CheckResult("/dev/shm", "warn", found, remedy)
    return CheckResult("/dev/shm", "ok", found)


def check_start_method() -> CheckResult:
    """How DataLoader workers come to life here."""
    method = multiprocessing.get_start_method()
    meaning = "workers start as copies" if method == "fork" else "workers import the script anew"
    return CheckResult("start method", "ok", f"{method}: {meaning}")


def check_open_files() -> CheckResult:
    """Every tensor that a worker hands over may hold a file open."""
    if sys.platform != "linux":  # elsewhere torch shares tensors by name and keeps no file open
        return CheckResult("open files", "ok", f"not used up on {sys.platform}")
    import resource  # Windows has none

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 1024:
        return CheckResult("open files", "warn", f"at most {soft}", "workers need many: ulimit -n 4096")
    return CheckResult("open files", "ok", f"at most {'unlimited' if soft == resource.RLIM_INFINITY else soft}")


def check_kernprof() -> CheckResult:
    """A kernprof of another environment would not find torch."""
    try:
        version = importlib.metadata.version("line_profiler")
    except importlib.metadata.PackageNotFoundError:
        return CheckResult("kernprof", "fail", "line_profiler is not installed", "pip install line_profiler")
    first, own = shutil.which("kernprof"), own_executable("kernprof")
    if first and own and Path(first).samefile(own):
        return CheckResult("kernprof", "ok", version)
    found = f"{version}, but the command kernprof is " + (f"another one, {first}" if first else "not on PATH")
    return CheckResult("kernprof", "warn", found, "activate this environment, or type python -m kernprof")


def check_py_spy() -> CheckResult:
    """Whether it may attach depends on system, container and user."""
    try:
        complaint, version = py_spy.why_no_access(), py_spy.version()
    except WorkshopError as error:
        found, _, remedy = str(error).rpartition("; ")
        return CheckResult("py-spy", "warn", found, remedy)
    if not complaint:
        return CheckResult("py-spy", "ok", f"{version}, may attach (ptrace)")
    remedy = "docker run --cap-add=SYS_PTRACE; on macOS, sudo" if sys.platform in ("linux", "darwin") else ""
    return CheckResult("py-spy", "warn", f"may not attach (ptrace): {complaint}", remedy)


def check_nvitop() -> CheckResult:
    """Its screen needs an NVIDIA driver, its library does not."""
    try:
        import nvitop
    except ImportError as error:
        return CheckResult("nvitop", "warn", first_line(error), "pip install nvitop")
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # NVML's own complaint is longer than this table
            gpus = nvitop.Device.count()
    except nvitop.NVMLError:
        return CheckResult(
            "nvitop", "ok", f"{nvitop.__version__}, but no NVIDIA driver: its screen does not start here"
        )
    return CheckResult("nvitop", "ok", f"{nvitop.__version__}, sees {gpus} GPU{'s' if gpus != 1 else ''}")


def check_data(data: Path) -> list[CheckResult]:
    """A set that is not there is fetched or drawn when it is needed: only an incomplete one is a fault."""
    return [
        CheckResult(each.name, "fail", each.found, each.remedy)
        if each.state == "incomplete"
        else CheckResult(each.name, "ok", each.found)
        for each in report(data)
    ]


def check_disk(data: Path) -> CheckResult:
    """Whether the data folder, or the first one above it that is there, takes what may have to be written."""
    folder = next(each for each in (data.absolute(), *data.absolute().parents) if os.path.lexists(each))
    if not folder.is_dir():
        return CheckResult("disk", "fail", f"{folder} is not a folder", "name another data folder with --data")
    free_bytes = shutil.disk_usage(folder).free
    found = f"{free_bytes / 1e9:,.1f} GB free in {folder}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return CheckResult("disk", "warn", f"{folder} may not be written", "name another data folder with --data")
    if free_bytes < 2e9:
        remedy = "free some space: the photos need 1.7 GB as they are fetched, the stand-in 0.1 GB"
        return CheckResult("disk", "warn", found, remedy)
    return CheckResult("disk", "ok", found)
