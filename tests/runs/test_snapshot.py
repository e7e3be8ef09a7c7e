"""A machine and the training runs on it, at one moment."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from script_runs import started

from workshop.errors import WorkshopError
from workshop.runs.snapshot import Gpu, Watch, runs_script

LOADING = """
import multiprocessing, sys, time
from torch.utils.data import DataLoader

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    context.Process(target=time.sleep, args=(60,), daemon=True).start()
    batches = iter(DataLoader(range(10**6), num_workers=2, multiprocessing_context=context))
    next(batches), next(batches)  # one of each worker: both run
    print("ready", flush=True)
    while True:  # busy, while the workers wait for room to put more
        pass
"""
NAMED = """
import ctypes, os, time

for name in (b"pt_data_worker", b"pt_data_worker", b"python"):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, name)  # as torch names its workers
        time.sleep(60)
        os._exit(0)
print("ready", flush=True)
while True:
    pass
"""
SLEEPING = "import time\nprint('ready', flush=True)\ntime.sleep(60)"
NESTED = "import subprocess, sys\nsubprocess.run([sys.executable, 'sleeping.py'])"

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes as Linux has them")


def ready(folder: Path, name: str, text: str, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """A script that has said that it is ready."""
    (folder / name).write_text(text)
    return started(folder, name, *arguments, ready="ready")


@pytest.fixture(
    scope="module",
    params=[
        "named",
        pytest.param("fork", marks=pytest.mark.slow),
        pytest.param("spawn", marks=pytest.mark.acceptance),
    ],
)
def loading(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The pid of a run with two DataLoader workers and another child."""
    script = NAMED if request.param == "named" else LOADING
    with ready(tmp_path_factory.mktemp("loading"), "train.py", script, request.param) as process:
        yield process.pid


@linux
def test_a_run_is_shown_with_its_workers(loading: int) -> None:
    watch = Watch([loading])
    watch.snapshot()
    while not (processes := watch.snapshot().processes)[0].cpu_percent:
        time.sleep(0.1)
    roles = sorted(process.role for process in processes if process.role != "helper")
    assert roles == ["child", "training", "worker 0", "worker 1"]
    root = processes[0]
    assert (root.pid, root.depth, root.role) == (loading, 0, "training")
    assert {process.depth for process in processes[1:]} == {1}
    workers = [process for process in processes if process.role.startswith("worker")]
    assert [worker.role for worker in sorted(workers, key=lambda worker: worker.pid)] == ["worker 0", "worker 1"]
    assert all(process.rss_bytes and process.rss_bytes > 2**20 for process in processes)
    assert [root.status, *(worker.status for worker in workers)] == ["running", "sleeping", "sleeping"]
    assert [worker.cpu_percent for worker in workers] == [0.0, 0.0]
    # Python's own helper process is there if workers are spawned.
    spawned = any("spawn_main" in worker.command for worker in workers)
    assert any(process.role == "helper" for process in processes) == spawned


@linux
def test_no_process_is_shown_twice(loading: int) -> None:
    all_pids = [process.pid for process in Watch([loading]).snapshot().processes]
    assert [process.pid for process in Watch([*reversed(all_pids), loading]).snapshot().processes] == all_pids


def test_rates_start_with_the_second_snapshot_and_all_is_json(tmp_path: Path) -> None:
    with ready(tmp_path, "sleeping.py", SLEEPING, "two\nlines", "/a/long/path") as process:
        watch = Watch([process.pid])
        first, second = watch.snapshot(), watch.snapshot()
    assert set(first.cores_percent) == {None}
    assert first.processes[0].cpu_percent is None
    assert len(second.cores_percent) == psutil.cpu_count()
    assert None not in second.cores_percent
    assert second.processes[0].cpu_percent is not None
    assert 0 < second.memory_used_bytes < second.memory_total_bytes == psutil.virtual_memory().total

    as_json = json.loads(json.dumps(replace(first, gpus=(Gpu(0, "one", None, 1, 2),)).as_dict()))
    [shown] = as_json["processes"]
    assert (shown["pid"], shown["command"]) == (process.pid, f"{Path(sys.executable).name} sleeping.py two lines path")
    [gpu] = as_json["gpus"]
    assert gpu == {"index": 0, "name": "one", "busy_percent": None, "memory_used_bytes": 1, "memory_total_bytes": 2}


@linux
def test_a_run_that_ends_leaves_the_picture(tmp_path: Path) -> None:
    with ready(tmp_path, "sleeping.py", SLEEPING) as process, ready(tmp_path, "other.py", SLEEPING) as other:
        watch = Watch([process.pid, other.pid])
        assert {each.pid for each in watch.snapshot().processes} == {process.pid, other.pid}
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its exit code still waits
        assert [each.pid for each in watch.snapshot().processes] == [other.pid]
        process.wait()
        assert [each.pid for each in watch.snapshot().processes] == [other.pid]
        other.kill()
        other.wait()
        assert watch.snapshot().processes == ()


def test_a_pid_that_is_gone_is_an_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    for pid in (process.pid, -1):
        with pytest.raises(WorkshopError, match=rf"^no process {pid}: .*leave the pid out.*$"):
            Watch([pid])


def test_scripts_are_found_and_their_descendants_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "sleeping.py").write_text(SLEEPING)
    with ready(tmp_path, "nested.py", NESTED) as process:
        snapshot = Watch(None).snapshot()
        found = [each for each in snapshot.processes if "nested.py" in each.command or "sleeping.py" in each.command]
        inner = psutil.Process(process.pid).children()[0].pid
    shown = [(each.pid, each.depth, each.role) for each in found]
    assert shown == [(process.pid, 0, "training"), (inner, 1, "child")]
    assert os.getpid() not in {each.pid for each in snapshot.processes}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py configs/example_config.py", True),
        ("/usr/bin/python3.12 -u -X dev -W error train.py", True),
        ("python /env/bin/kernprof -lv train.py configs/example_config.py", True),
        ("python -m kernprof -lv train.py", True),
        ("kernprof -lv train.py", True),
        ("torchrun --nproc_per_node 2 train.py", True),
        ("python -m torch.distributed.run train.py", True),
        ("python -m workshop check --script train.py", False),
        ("python /env/bin/workshop check --script train.py", False),
        ("python -m pytest tests/cli/test_main.py", False),
        ("vim train.py", False),
        ("python -c pass", False),
        ("python", False),
        ("", False),
    ],
)
def test_what_counts_as_a_script(command: str, expected: bool) -> None:
    assert runs_script(command.split()) == expected
