"""Fixtures for all tests. No test uses the network beyond the loopback interface."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Before NumPy and torch are loaded, here and in every script that a test starts: on a busy machine, threads wait for
# each other far longer than they compute. Those that spin meanwhile take the cores from all others.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import psutil
import pytest
from filelock import FileLock

from workshop.cli.main import main
from workshop.pets import stand_in
from workshop.pets.ensure import ensure_stand_in

pytest_plugins = ["archive_server", "browsers"]

Completed = subprocess.CompletedProcess[str]
Run = Callable[..., Completed]
Once = Callable[[str, Callable[[Path], object]], Path]


def pytest_configure(config: pytest.Config) -> None:
    """Let no example of hypothesis fail for being slow; who only hands tests out to processes, needs none of it."""
    if config.getoption("numprocesses", 0):
        return
    import hypothesis

    ignored = [hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("busy machine", deadline=None, suppress_health_check=ignored)
    hypothesis.settings.load_profile("busy machine")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a CUDA device where there is none; fail it where there has to be one."""
    if not item.get_closest_marker("cuda"):
        return
    import torch

    if not torch.cuda.is_available():
        if os.environ.get("WORKSHOP_REQUIRE_CUDA"):
            pytest.fail("WORKSHOP_REQUIRE_CUDA is set, and there is no CUDA device")
        pytest.skip("there is no CUDA device")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a test that asks for the photos by mistake from downloading 0.8 GB."""
    monkeypatch.setenv("WORKSHOP_OFFLINE", "1")


@pytest.fixture(scope="session")
def project() -> Path:
    """The top folder of the project."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def data(request: pytest.FixtureRequest) -> Path:
    """A data folder that holds the stand-in, kept from run to run. Tests read it and change nothing in it."""
    drawn_by = hashlib.sha256(Path(stand_in.__file__).read_bytes()).hexdigest()[:12]
    folder = Path(request.config.cache.mkdir(f"stand-in-{drawn_by}"))
    ensure_stand_in(folder)
    return folder


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Have something done in a folder by the first test that asks for it, in whichever process, and return the folder.

    All others that ask for the same name read what it has left there, and change nothing in it.
    """
    top = tmp_path_factory.getbasetemp()
    top = (top.parent if "PYTEST_XDIST_WORKER" in os.environ else top) / "once"
    top.mkdir(exist_ok=True)

    def do_once(name: str, do: Callable[[Path], object]) -> Path:
        folder, done = top / name, top / f"{name}.done"
        with FileLock(top / f"{name}.lock"):
            if not done.exists():
                folder.mkdir()
                do(folder)
                done.touch()
        return folder

    return do_once


@pytest.fixture
def write_config(tmp_path: Path) -> Callable[..., Path]:
    """Write a config file for a run of seconds; fields can be given another value."""

    def write(name: str = "config.py", **fields: Any) -> Path:
        small = {"batch_size": 8, "max_epochs": 2, "image_size": 48, "wasted_time": 0.0, "max_items": 20}
        values = small | {"dataset": "stand-in"} | fields
        arguments = ", ".join(f"{key}={value!r}" for key, value in values.items())
        path = tmp_path / name
        path.write_text(f"from workshop.experiment import ExperimentConfig\nconfig = ExperimentConfig({arguments})\n")
        return path

    return write


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run this Python with some arguments in the test's own folder, and catch what it prints."""

    def run_python(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> Completed:
        command = [sys.executable, *map(str, arguments)]
        variables = {**os.environ, **(environment or {})}
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=240)

    return run_python


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command `workshop` in this process, in the test's own folder, with no terminal to ask at."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setenv("WORKSHOP_LOG", "")  # so that the one that `workshop -v` sets ends with the test

    def run_command(*arguments: str | Path) -> Completed:
        command = ["workshop", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", command)
        capsys.readouterr()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(command, code, printed.out, printed.err)

    return run_command


def ends(process_group: int) -> bool:
    """Return whether every process of a group, apart from zombies, ends within 20 seconds."""
    deadline = time.monotonic() + 20
    while any(_runs_in(process_group, process) for process in psutil.process_iter()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _runs_in(process_group: int, process: psutil.Process) -> bool:
    try:
        return os.getpgid(process.pid) == process_group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False
