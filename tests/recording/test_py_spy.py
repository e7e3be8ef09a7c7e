"""`workshop record py-spy`, with the real py-spy over real processes."""

import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from conftest import Completed, Run, ends
from said import OF_OTHER_PROGRAMS
from script_runs import press_ctrl_c, started

import workshop as package
from workshop.errors import EXIT_CRASHED
from workshop.profiles import py_spy_report, sample_groups, stacks
from workshop.profiles.code_origin import CodeOrigins
from workshop.profiles.stacks import Recording
from workshop.recording.py_spy import NO_PTRACE, record

pytestmark = pytest.mark.usefixtures("py_spy_attaches")

Left = Callable[[], list[psutil.Process]]

RANK = """
import os, sys, time
def work_of_0():
    time.sleep(3)
def work_of_1():
    time.sleep(3)
globals()["work_of_" + os.environ["RANK"]]()
"""
WORK = """
import os, sys, time
def work(seconds):
    time.sleep(seconds)
"""
RECORD = ("-m", "workshop", "record", "py-spy")


def recorded(folder: Path) -> Recording:
    [path] = folder.glob("py-spy-outputs/*.raw")
    return stacks.read(path)


@pytest.mark.slow
def test_the_slow_script_with_two_workers(
    project: Path, data: Path, write_config: Callable[..., Path], run: Run, workshop: Run, tmp_path: Path
) -> None:
    source = (project / "train.py").read_text().replace("shuffle=True", "shuffle=True, num_workers=2")
    (tmp_path / "train.py").write_text(source)
    config = write_config(batch_size=4, max_items=16, max_epochs=1, wasted_time=0.1)
    command = [sys.executable, "train.py", config, "--data", data, "--device", "cpu"]
    done = run(*RECORD, "--idle", "--rate", "200", "--", *command)
    assert done.returncode == 0, done.stderr
    assert "py-spy>" not in done.stdout + done.stderr

    found = recorded(tmp_path)
    assert [note for note in found.notes if not any(words in note for words in OF_OTHER_PROGRAMS)] == []
    processes = list(sample_groups.split(found, "process"))
    assert len([name for name in processes if name.endswith("DataLoader worker")]) == 2
    assert any(name.endswith(" ".join(map(str, command))) for name in processes)
    assert not any("workshop-record" in str(stack) for stack in found.stacks)

    report = workshop("py-spy-report", "--file", "py-spy-outputs", "--aggregate-leaf-paths", "--num-rows", "all")
    assert report.returncode == 0
    assert "train.py" in report.stdout
    assert "DataLoader workers; --by process tells them apart" in report.stderr
    rows = py_spy_report.leaves(found, "train.py").rows
    in_script = [(row.samples, row.spot.library) for row in rows if row.spot.library]
    assert {frame.path for _, frame in in_script} == {"train.py"}
    lines = {each.line for _, each in in_script if each.name == "CustomSlowDataset.__getitem__"}
    assert "        time.sleep(self.wasted_time)" in {source.splitlines()[line - 1] for line in lines if line}
    [own, *_] = py_spy_report.leaves(found, "train.py", is_user_code=CodeOrigins(found).is_user_code).rows
    assert own.samples > 0


LAUNCH = """
import os, subprocess, sys
print("said")
print("cried", file=sys.stderr)
ranks = [subprocess.Popen([sys.executable, "rank.py"], env=os.environ | {"RANK": str(rank)}) for rank in range(2)]
sys.exit(max(rank.wait() for rank in ranks))
"""


@pytest.fixture(scope="module")
def two_ranks(py_spy_attaches: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Completed]:
    """The folder of a recording of two ranks that sleep, and what was said."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "launch.py").write_text(LAUNCH)
    (folder / "rank.py").write_text(RANK + "sys.exit(3)")
    command = [sys.executable, *RECORD, "--idle", "-o", "new/folder/mine.raw", "--", sys.executable, "launch.py"]
    return folder, subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_what_the_command_says_and_how_it_ends_is_passed_on(two_ranks: tuple[Path, Completed]) -> None:
    folder, done = two_ranks
    assert (done.returncode, done.stdout) == (3, "said\n")
    assert done.stderr.startswith("cried\n")
    assert "are in new/folder/mine.raw" in done.stderr
    [path] = (folder / "new" / "folder").glob("[!.]*")  # beside a busy program, a hidden file tells of it
    assert path.name == "mine.raw"
    assert {stack.processes[-1].command for stack in stacks.read(path).stacks} == {
        *(f"{rank}{sys.executable} rank.py" for rank in ("RANK=0 ", "RANK=1 ")),
        f"{sys.executable} launch.py",
    }


def check_ranks(recording: Path) -> None:
    """Each rank is told apart, and has done its work, which is not the other's."""
    found = sample_groups.split(stacks.read(recording), "rank")
    assert list(found)[:2] == ["rank 0", "rank 1"]
    for rank in range(2):
        totals = py_spy_report.totals(found[f"rank {rank}"], "rank.py").rows
        names = {row.spot.leaf.name for row in totals if row.spot.leaf}
        assert {name for name in names if name.startswith("work")} == {f"work_of_{rank}"}


def test_ranks_are_told_apart(two_ranks: tuple[Path, Completed]) -> None:
    check_ranks(two_ranks[0] / "new" / "folder" / "mine.raw")


@pytest.mark.acceptance
def test_ranks_of_torchrun_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rank.py").write_text(RANK)
    run = record(
        [shutil.which("torchrun") or "torchrun", "--standalone", "--nproc_per_node=2", "rank.py"], flags=["--idle"]
    )
    assert run.exit_code == 0
    check_ranks(run.path)


def sampled(script: Path, within_s: float = 0.2) -> int:
    """Count the processes of a script that are stopped within some time, as py-spy does to look at them."""

    def is_stopped(process: psutil.Process) -> bool:
        until = time.monotonic() + within_s
        while (is_held := process.status() == psutil.STATUS_TRACING_STOP) is False and time.monotonic() < until:
            pass
        return is_held

    found = [each for each in psutil.process_iter(["name", "cmdline"]) if str(script) in (each.info["cmdline"] or ())]
    return sum(is_stopped(each) for each in found if each.info["name"].startswith("python"))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_what_was_seen_until_a_signal_is_kept(number: int, code: int, tmp_path: Path) -> None:
    script = (
        "from workshop.errors import plain_errors\nwith plain_errors():\n    print('working', flush=True)\n    work(60)"
    )
    waits = tmp_path / "waits.py"
    waits.write_text(WORK + script)
    with started(tmp_path, *RECORD, "--idle", "--", sys.executable, waits, ready="working") as process:
        for _ in range(10):  # with the first ones py-spy learns what kind of Python it is
            while not sampled(waits):
                assert process.poll() is None
            while sampled(waits, within_s=0.0):
                assert process.poll() is None
        press_ctrl_c(process) if number == signal.SIGINT else process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == code, said
        assert f'File "{Path(package.__file__).parent}' not in said
        assert said.count("stopped by Ctrl-C") == (number == signal.SIGINT), "the script says it"
        assert recorded(tmp_path).samples > 0
        assert ends(process.pid)


DEAF = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGINT, lambda *_: None)
if sys.argv[1:] != ["child"]:
    subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
"""


def test_after_some_seconds_all_of_it_ends_with_what_was_seen(
    workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_running: Left
) -> None:
    """Though it listens to no signal; the seconds are over once both of its processes have been looked at."""
    deaf = tmp_path / "deaf.py"
    looks = list[bool]()
    made = SimpleNamespace(monotonic=lambda: looks.append(sampled(deaf) == 2) or 3.0 * (sum(looks) > 2))
    monkeypatch.setattr("workshop.recording.run.time", made)
    monkeypatch.setattr("workshop.recording.run.TORCH_PATIENCE_S", 3.0)
    deaf.write_text(WORK + DEAF + "work(60)")
    done = workshop("record", "py-spy", "--idle", "--seconds", "3", "--", sys.executable, str(deaf))
    assert done.returncode == 0, done.stderr
    assert "torch was not loaded within 3 s" in done.stderr
    assert "ended on purpose: the 3 s of --seconds" in done.stderr
    found = recorded(tmp_path)
    assert len(sample_groups.split(found, "process")) == 2
    assert left_running() == []


@pytest.mark.slow
def test_what_outlives_the_command_is_ended(workshop: Run, tmp_path: Path, left_running: Left) -> None:
    (tmp_path / "deaf.py").write_text(WORK + DEAF + "work(60 if sys.argv[1:] else 3); sys.exit(3)")
    done = workshop("record", "py-spy", "--idle", "--", sys.executable, str(tmp_path / "deaf.py"))
    assert done.returncode == 3, done.stderr
    assert recorded(tmp_path).samples > 0
    assert left_running() == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--", "no-such-command"], "there is no command no-such-command"),
        (["--", "true"], "no Python begin within a second in true"),
        (["--", "sh", "-c", "exit 2"], "in sh -c 'exit 2', which ended with exit code 2"),
        (["-o", "file/mine.raw", "--", sys.executable, "-c", "open('ran', 'w')"], "cannot use file"),
    ],
)
def test_nothing_to_record(arguments: list[str], says: str, workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = workshop("record", "py-spy", *arguments)
    assert done.returncode == (EXIT_CRASHED if "ended with exit code" in says else 2)
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.glob("py-spy-outputs/*")) == []
    assert not (tmp_path / "ran").exists(), "hours of training would be lost"


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="system calls by their numbers")
def test_where_ptrace_is_forbidden(run: Run, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WORK + "work(60)")
    done = run(Path(__file__).with_name("without_ptrace.py"), sys.executable, *RECORD, "--", sys.executable, "waits.py")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [NO_PTRACE]
