"""Is this machine ready for the workshop? One function a question, one row an answer."""

import contextlib
import importlib.metadata
import io
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workshop.errors import first_line
from workshop.pets.status import report
from workshop.tools import find_tool, own_tool

OLDEST_PYTHON = (3, 11)
Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Row:
    """What was found; "warn" means that a part of the workshop suffers, "fail" that the workshop cannot run."""

    name: str
    status: Status
    found: str
    remedy: str = ""


def examine(data: Path) -> list[Row]:
    """Ask every question; `data` is the data folder. Takes some seconds, as it loads torch and starts py-spy."""
    checks: list[Callable[[], Row]] = [
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


def check_python() -> Row:
    """One too old could not have installed the workshop, but may run it from its folder."""
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return Row("Python", "fail", found, f"install Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer")
    return Row("Python", "ok", found)


def check_torch() -> Row:
    """The installation may be missing or broken."""
    try:
        import torch
    except Exception as error:  # a broken installation fails in many ways
        return Row("torch", "fail", first_line(error), "pip install torch torchvision")
    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    return Row("torch", "ok", f"{torch.__version__}, built {built}")


def check_torchvision() -> Row:
    """A torchvision made for another torch fails as it is imported."""
    try:
        import torchvision
    except Exception as error:
        remedy = "pip install --force-reinstall torch torchvision, both in one command"
        return Row("torchvision", "fail", first_line(error), remedy)
    return Row("torchvision", "ok", f"{torchvision.__version__}, fits torch")


def check_device() -> Row:
    """What training would run on."""
    try:
        from workshop.device import available_devices

        devices = available_devices()
    except Exception as error:
        return Row("device", "fail", first_line(error), "see torch above")
    if devices == ["cpu"] and shutil.which("nvidia-smi"):
        remedy = "there is an NVIDIA driver: install a torch built for CUDA, or a newer driver"
        return Row("device", "warn", "cpu alone", remedy)
    note = "; no CUDA, so copies to a GPU cannot be timed" if devices == ["cpu"] else ""
    return Row("device", "ok", ", ".join(devices) + note)


def check_cores() -> Row:
    """With one core, workers and training take turns."""
    usable, quota = _usable_cores(), _cpu_quota()
    found = f"{usable} of {os.cpu_count()} usable" + (f", limited to {quota:g} by the container" if quota else "")
    if min(usable, quota or usable) < 2:
        return Row("cores", "warn", found, "timings want two or more; ask for more cores")
    return Row("cores", "ok", found)


def check_shared_memory() -> Row:
    """DataLoader workers hand their batches over in /dev/shm."""
    folder = Path("/dev/shm")
    if sys.platform != "linux":
        return Row("/dev/shm", "ok", f"not used on {sys.platform}")
    if not folder.is_dir():
        return Row("/dev/shm", "fail", "not there", "mount a tmpfs at /dev/shm")
    free_bytes = shutil.disk_usage(folder).free
    found = f"{free_bytes / 2**20:,.0f} MiB free"
    # A float32 batch of 32 items at 224 pixels is 19 MB, and every worker keeps two of them ready.
    if free_bytes < 512 * 2**20:
        remedy = "workers may die of a bus error: docker run --shm-size=2g, or fewer workers"
        return Row("/dev/shm", "warn", found, remedy)
    return Row("/dev/shm", "ok", found)


def check_start_method() -> Row:
    """How DataLoader workers come to life here."""
    method = multiprocessing.get_start_method()
    meaning = "workers start as copies" if method == "fork" else "workers import the script anew"
    return Row("start method", "ok", f"{method}: {meaning}")


def check_open_files() -> Row:
    """Every tensor that a worker hands over may hold a file open."""
    if sys.platform != "linux":  # elsewhere torch shares tensors by name and keeps no file open
        return Row("open files", "ok", f"not used up on {sys.platform}")
    import resource  # Windows has none

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 1024:
        return Row("open files", "warn", f"at most {soft}", "workers need many: ulimit -n 4096")
    return Row("open files", "ok", f"at most {'unlimited' if soft == resource.RLIM_INFINITY else soft}")


def check_kernprof() -> Row:
    """A kernprof of another environment would not find torch."""
    try:
        version = importlib.metadata.version("line_profiler")
    except importlib.metadata.PackageNotFoundError:
        return Row("kernprof", "fail", "line_profiler is not installed", "pip install line_profiler")
    first, own = shutil.which("kernprof"), own_tool("kernprof")
    if first and own and Path(first).samefile(own):
        return Row("kernprof", "ok", version)
    found = f"{version}, but the command kernprof is " + (f"another one, {first}" if first else "not on PATH")
    return Row("kernprof", "warn", found, "activate this environment, or type python -m kernprof")


def check_py_spy() -> Row:
    """Let it record a process for half a second: whether it may attach depends on system, container and user."""
    py_spy = find_tool("py-spy")
    if py_spy is None:
        return Row("py-spy", "warn", "not installed", "pip install py-spy")
    with tempfile.TemporaryDirectory() as folder:
        sleeper = [sys.executable, "-c", "import time; time.sleep(0.5)"]
        command = [py_spy, "record", "--format", "raw", "--output", f"{folder}/stacks", "--", *sleeper]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Row("py-spy", "warn", f"does not run: {first_line(error)}", "pip install --force-reinstall py-spy")
    version = subprocess.run([py_spy, "--version"], capture_output=True, text=True).stdout.strip()
    if run.returncode == 0:
        return Row("py-spy", "ok", f"{version.removeprefix('py-spy ')}, may attach (ptrace)")
    remedy = "docker run --cap-add=SYS_PTRACE; on macOS, sudo" if sys.platform in ("linux", "darwin") else ""
    # Perhaps with causes, and a stack of py-spy's own below.
    complaint = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[0].removeprefix("Error: ")
    return Row("py-spy", "warn", f"may not attach (ptrace): {complaint}", remedy)


def check_nvitop() -> Row:
    """Its screen needs an NVIDIA driver, its library does not."""
    try:
        import nvitop
    except ImportError as error:
        return Row("nvitop", "warn", first_line(error), "pip install nvitop")
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # NVML's own complaint is longer than this table
            gpus = nvitop.Device.count()
    except nvitop.NVMLError:
        return Row("nvitop", "ok", f"{nvitop.__version__}, but no NVIDIA driver: its screen does not start here")
    return Row("nvitop", "ok", f"{nvitop.__version__}, sees {gpus} GPU{'s' if gpus != 1 else ''}")


def check_data(data: Path) -> list[Row]:
    """A set that is not there is fetched or drawn when it is needed: only an incomplete one is a fault."""
    return [
        Row(each.name, "fail", each.found, each.remedy)
        if each.state == "incomplete"
        else Row(each.name, "ok", each.found)
        for each in report(data)
    ]


def check_disk(data: Path) -> Row:
    """Whether the data folder, or the first one above it that is there, takes what may have to be written."""
    folder = next(each for each in (data.absolute(), *data.absolute().parents) if os.path.lexists(each))
    if not folder.is_dir():
        return Row("disk", "fail", f"{folder} is not a folder", "name another data folder with --data")
    free_bytes = shutil.disk_usage(folder).free
    found = f"{free_bytes / 1e9:,.1f} GB free in {folder}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return Row("disk", "warn", f"{folder} may not be written", "name another data folder with --data")
    if free_bytes < 2e9:
        remedy = "free some space: the photos need 1.7 GB as they are fetched, the stand-in 0.1 GB"
        return Row("disk", "warn", found, remedy)
    return Row("disk", "ok", found)


def _usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_quota() -> float | None:
    """Cores' worth of time that a container allows, by Linux' control groups version 2; None for no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)
