import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from workshop.errors import WorkshopError
from workshop.monitor import START, Gpu, Snapshot, Watch, monitor, render, runs_script

LOADING = """
import multiprocessing, sys, time
from torch.utils.data import DataLoader

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    context.Process(target=time.sleep, args=(60,), daemon=True).start()
    batches = iter(DataLoader(range(10**6), num_workers=2, multiprocessing_context=context))
    next(batches)
    print("ready", flush=True)
    while True:  # busy, while the workers wait for room to put more
        pass
"""
SLEEPING = "import time\nprint('ready', flush=True)\ntime.sleep(60)"
NESTED = "import subprocess, sys\nsubprocess.run([sys.executable, 'sleeping.py'])"

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes as Linux has them")


@contextmanager
def started(folder: Path, name: str, script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A script that has said that it is ready; it and its descendants are gone in the end."""
    (folder / name).write_text(script)
    command = [sys.executable, name, *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            if process.poll() is None:
                for each in [*psutil.Process(process.pid).children(recursive=True), process]:
                    each.kill()


@pytest.fixture(scope="module", params=["fork", "spawn"])
def loading(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The pid of a run with two DataLoader workers and another child."""
    with started(tmp_path_factory.mktemp("loading"), "train.py", LOADING, request.param) as process:
        yield process.pid


def measured(watch: Watch) -> Snapshot:
    """A snapshot with rates."""
    watch.snapshot()
    time.sleep(0.3)
    return watch.snapshot()


def drawn(snapshot: Snapshot, width: int = 80) -> str:
    """The picture without colours, on a console that would show longer lines, too."""
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as capture:
        console.print(render(snapshot, width))
    return capture.get()


@linux
def test_a_run_is_shown_with_its_workers(loading: int) -> None:
    processes = measured(Watch([loading])).processes
    roles = sorted(process.role for process in processes if process.role != "helper")
    assert roles == ["child", "training", "worker 0", "worker 1"]
    root = processes[0]
    assert (root.pid, root.depth, root.role) == (loading, 0, "training")
    assert {process.depth for process in processes[1:]} == {1}
    workers = [process for process in processes if process.role.startswith("worker")]
    assert [worker.role for worker in sorted(workers, key=lambda worker: worker.pid)] == ["worker 0", "worker 1"]
    assert all(process.rss_bytes and process.rss_bytes > 2**20 for process in processes)
    assert root.status == "running"
    for worker in workers:
        assert worker.status == "sleeping"
        assert root.cpu_percent is not None
        assert worker.cpu_percent is not None
        assert root.cpu_percent > worker.cpu_percent
    # Python's own helper process is there if workers are spawned.
    spawned = any("spawn_main" in worker.command for worker in workers)
    assert any(process.role == "helper" for process in processes) == spawned


@linux
def test_no_process_is_shown_twice(loading: int) -> None:
    all_pids = [process.pid for process in Watch([loading]).snapshot().processes]
    assert [process.pid for process in Watch([*reversed(all_pids), loading]).snapshot().processes] == all_pids


@linux
@pytest.mark.parametrize("width", [80, 120])
def test_the_picture_fits(loading: int, width: int) -> None:
    snapshot = measured(Watch([loading]))
    gpu = Gpu(0, "NVIDIA Something With A Rather Long Name", 45.0, 10 * 2**30, 140 * 2**30)
    for cores in (1, 2, 16, 128):
        cores_percent = (100.0,) * cores
        for gpus in ((), (gpu, replace(gpu, index=1, busy_percent=None, memory_used_bytes=None))):
            picture = drawn(replace(snapshot, cores_percent=cores_percent, gpus=gpus), width)
            assert max(map(len, picture.splitlines())) <= width
            assert len(picture.splitlines()) <= 30
            for words in ("cores", "memory", "disk", "training", "└ worker 0", "└ worker 1", "sleeping", str(loading)):
                assert words in picture
            assert picture.count("100%") == cores
            assert ("GPU MiB" in picture, picture.count("\nGPU ")) == (bool(gpus), len(gpus))
            assert "python" in picture.split("command")[1]


def test_rates_start_with_the_second_snapshot(tmp_path: Path) -> None:
    with started(tmp_path, "sleeping.py", SLEEPING) as process:
        watch = Watch([process.pid])
        first, second = watch.snapshot(), watch.snapshot()
    assert set(first.cores_percent) == {None}
    assert first.processes[0].cpu_percent is None
    assert len(second.cores_percent) == psutil.cpu_count()
    assert None not in second.cores_percent
    assert second.processes[0].cpu_percent is not None
    assert 0 < second.memory_used_bytes < second.memory_total_bytes == psutil.virtual_memory().total


def test_a_snapshot_is_json(tmp_path: Path) -> None:
    with started(tmp_path, "sleeping.py", SLEEPING) as process:
        snapshot = replace(Watch([process.pid]).snapshot(), gpus=(Gpu(0, "one", None, 1, 2),))
    as_json = json.loads(json.dumps(snapshot.as_dict()))
    assert as_json["processes"][0]["pid"] == process.pid
    assert as_json["gpus"] == [
        {"index": 0, "name": "one", "busy_percent": None, "memory_used_bytes": 1, "memory_total_bytes": 2}
    ]


def test_a_command_is_one_short_line(tmp_path: Path) -> None:
    with started(tmp_path, "sleeping.py", SLEEPING, "two\nlines", "/a/long/path") as process:
        (shown,) = Watch([process.pid]).snapshot().processes
    assert shown.command == f"{Path(sys.executable).name} sleeping.py two lines path"


@linux
def test_a_run_that_ends_leaves_the_picture(tmp_path: Path) -> None:
    with started(tmp_path, "sleeping.py", SLEEPING) as process, started(tmp_path, "other.py", SLEEPING) as other:
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
        assert f"Start the training in another terminal:\n  {START}" in drawn(watch.snapshot())


def test_a_pid_that_is_gone_is_an_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    for pid in (process.pid, -1):
        with pytest.raises(WorkshopError, match=rf"^no process {pid}: .*leave the pid out.*$"):
            Watch([pid])


def test_scripts_are_found_and_their_descendants_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "sleeping.py").write_text(SLEEPING)
    with started(tmp_path, "nested.py", NESTED) as process:
        snapshot = Watch(None).snapshot()
        found = [each for each in snapshot.processes if "nested.py" in each.command or "sleeping.py" in each.command]
        inner = psutil.Process(process.pid).children()[0].pid
    assert [(each.pid, each.depth, each.role) for each in found] == [
        (process.pid, 0, "training"),
        (inner, 1, "child"),
    ]
    assert os.getpid() not in {each.pid for each in snapshot.processes}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py configs/example_config.py", True),
        ("/usr/bin/python3.12 -u -X dev -W error train.py", True),
        ("python /env/bin/kernprof -lv train.py configs/example_config.py", True),
        ("python -m kernprof -lv train.py", True),
        ("kernprof.exe -lv train.py", True),
        ("torchrun --nproc_per_node 2 train.py", True),
        ("python -m torch.distributed.run train.py", True),
        ("python -m workshop check --script train.py", False),
        ("python /env/bin/workshop check --script train.py", False),
        ("python -m pytest tests/test_monitor.py", False),
        ("vim train.py", False),
        ("python -c pass", False),
        ("python", False),
        ("", False),
    ],
)
def test_what_counts_as_a_script(command: str, expected: bool) -> None:
    assert runs_script(command.split()) == expected


def test_without_a_terminal_it_prints_one_picture(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80)
    with started(tmp_path, "sleeping.py", SLEEPING) as process, console.capture() as capture:
        monitor([process.pid], 0.1, once=False, console=console)
    assert capture.get().count("training") == 1
    assert "-%" not in capture.get()  # rates are there
    assert "\x1b" not in capture.get()


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal as POSIX has them")
def test_ctrl_c_leaves_the_terminal_as_it_was(project: Path) -> None:
    code = f"""
import os
from rich.console import Console
from workshop.monitor import monitor
monitor([{os.getpid()}], 0.1, once=False, console=Console())
"""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, "-c", code]
    shown = ""
    with subprocess.Popen(
        command,
        cwd=project,
        env=environment,
        stdout=theirs,
        stderr=subprocess.PIPE,
        # A shell that starts the tests in the background makes what they start deaf to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        os.close(theirs)
        while shown.count("training") < 3 and select.select([ours], [], [], 20)[0]:
            shown += os.read(ours, 4096).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # Linux reports the end of a terminal as an error
            while last := os.read(ours, 4096):
                shown += last.decode(errors="replace")
        complaint = process.communicate(timeout=10)[1]
    os.close(ours)
    assert complaint.strip().endswith(b"KeyboardInterrupt")
    assert "\x1b[?1049h" in shown  # the other screen
    assert shown.rindex("\x1b[?1049l") > shown.rindex("training")
    assert "\x1b[?25h" in shown[shown.rindex("training") :]  # the cursor
