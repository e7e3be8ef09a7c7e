"""Scripts, run as programs or loaded as modules in the process of the tests, or started beside it and ended."""

import importlib.util
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run_script(path: Path, *arguments: str | Path) -> int:
    """Run a script in this process, where torch is loaded already, and return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [path.name, *map(str, arguments)])
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as stop:
            return int(stop.code or 0)
    return 0


def benchmark_module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a file of `benchmarks/` as a module; it may import others beside it."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location(f"benchmark_of_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@contextmanager
def started(folder: Path, *arguments: str | Path, ready: str | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start this Python with some arguments, wait for the line that says that it is ready, and leave nothing of it."""
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell starts what it puts in the background deaf to Ctrl-C, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout
        assert ready is None or process.stdout.readline() == f"{ready}\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    """Do what a terminal does: every process of the foreground gets the signal."""
    os.killpg(process.pid, signal.SIGINT)
