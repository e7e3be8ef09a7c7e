"""`workshop record py-spy`, with the real py-spy over real processes."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run, ends

from workshop.doctor import check_py_spy
from workshop.profiles import hot_spots, identity, stacks
from workshop.profiles.own_code import Origins
from workshop.profiles.stacks import Recording
from workshop.recording.names import identity as names
from workshop.recording.names import place
from workshop.recording.py_spy import NO_PTRACE

BUSY = """
import sys, time
def work(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
"""


@pytest.fixture(autouse=True)
def _allowed() -> None:
    """Where py-spy may not look, nothing can be recorded; in CI it must."""
    row = check_py_spy()
    if row.status != "ok" and os.environ.get("CI"):
        pytest.fail(f"CI must let py-spy attach: {row.found}")
    if row.status != "ok":
        pytest.skip(f"py-spy {row.found}")


def recorded(folder: Path) -> Recording:
    [path] = folder.glob("py-spy-outputs/*.raw")
    return stacks.read(path)


def test_the_slow_script_with_two_workers(
    project: Path, data: Path, write_config: Callable[..., Path], run: Run, tmp_path: Path
) -> None:
    source = (project / "train.py").read_text().replace("shuffle=True", "shuffle=True, num_workers=2")
    (tmp_path / "train.py").write_text(source)
    config = write_config(batch_size=4, max_items=16, wasted_time=0.1)
    record = ("-m", "workshop", "record", "py-spy", "--idle", "--rate", "200", "--")
    done = run(*record, sys.executable, "train.py", config, "--data", data, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "py-spy>" not in done.stdout + done.stderr

    found = recorded(tmp_path)
    assert found.damage == []
    processes = list(identity.split(found, "process"))
    assert len([name for name in processes if name.endswith("DataLoader worker")]) == 4  # two for each epoch
    assert any(name.endswith(f"{sys.executable} train.py {config} --data {data} --device cpu") for name in processes)
    assert not any("workshop-record" in str(stack) for stack in found.stacks)

    report = run(
        "-m", "workshop", "py-spy-report", "--file", "py-spy-outputs", "--aggregate-leaf-paths", "--num-rows", "all"
    )
    assert report.returncode == 0
    assert "train.py" in report.stdout
    assert "DataLoader workers; --by process tells them apart" in report.stderr
    rows = hot_spots.leaves(found, "train.py").rows
    libraries = {row.spot.library.path for row in rows if row.spot.library}
    assert libraries == {"train.py"}
    sleeping = source.splitlines().index("        time.sleep(self.wasted_time)") + 1
    of_workers = [row for row in rows if row.spot.library and row.spot.library.name == "CustomSlowDataset.__getitem__"]
    hottest = max(of_workers, key=lambda row: row.samples).spot.library
    assert hottest
    assert hottest.line == sleeping
    [own, *_] = hot_spots.own_leaves(found, "train.py", Origins(found).is_own).rows
    assert own.samples > 0


def test_what_the_command_says_and_how_it_ends_is_passed_on(run: Run, tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY + "work(0.8); print('said'); print('cried', file=sys.stderr); sys.exit(3)")
    done = run("-m", "workshop", "record", "py-spy", "-o", "new/folder/mine.raw", "--", sys.executable, "busy.py")
    assert done.returncode == 3
    assert done.stdout == "said\n"
    assert done.stderr.startswith("cried\n")
    assert "are in new/folder/mine.raw" in done.stderr
    found = stacks.read(tmp_path / "new" / "folder" / "mine.raw")
    assert {stack.processes[-1].command for stack in found.stacks} == {f"{sys.executable} busy.py"}
    assert sum(stack.samples for stack in found.stacks if stack.frames[-1:] and stack.frames[-1].name == "work") > 10
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["mine.raw"]


def test_ranks_are_told_apart(run: Run, tmp_path: Path) -> None:
    """As torchrun starts them; the slow one shows."""
    (tmp_path / "rank.py").write_text(BUSY + "import os\nwork(0.4 + 0.8 * (os.environ['RANK'] == '1'))")
    (tmp_path / "launch.py").write_text(
        "import os, subprocess, sys\n"
        "ranks = [subprocess.Popen([sys.executable, 'rank.py'], env=os.environ | {'RANK': str(n)}) for n in range(2)]\n"
        "sys.exit(max(rank.wait() for rank in ranks))\n"
    )
    done = run("-m", "workshop", "record", "py-spy", "--", sys.executable, "launch.py")
    assert done.returncode == 0, done.stderr
    found = identity.split(recorded(tmp_path), "rank")
    assert list(found)[:2] == ["rank 0", "rank 1"]
    assert found["rank 1"].samples > 1.5 * found["rank 0"].samples


@pytest.mark.slow
def test_torchrun(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(
        BUSY + "import torch.distributed as d\nd.init_process_group('gloo')\nwork(1)\nd.barrier()"
    )
    torchrun = shutil.which("torchrun") or "torchrun"
    done = run("-m", "workshop", "record", "py-spy", "--", torchrun, "--standalone", "--nproc_per_node=2", "rank.py")
    assert done.returncode == 0, done.stderr
    found = identity.split(recorded(tmp_path), "rank")
    assert list(found)[:2] == ["rank 0", "rank 1"]
    for name in ("rank 0", "rank 1"):
        total = {row.spot.leaf.name for row in hot_spots.totals(found[name], "rank.py").rows if row.spot.leaf}
        assert "work" in total, name


@pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_was_seen_until_a_signal_is_kept(number: int, code: int, tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY + "print('working', flush=True)\nwork(60)")
    command = [sys.executable, "-m", "workshop", "record", "py-spy", "--", sys.executable, "busy.py"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout
    assert process.stdout.readline() == "working\n"
    time.sleep(0.7)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == code, said
    assert 'Traceback (most recent call last):\n  File "' + str(Path(__file__).parents[2] / "workshop") not in said
    assert recorded(tmp_path).samples > 20
    assert ends(process.pid)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["no-such-command"], "there is no command no-such-command"),
        (["true"], "no Python begin within a second in true"),
        ([sys.executable, "missing.py"], "exit code 2"),
    ],
)
def test_nothing_to_record(command: list[str], says: str, run: Run, tmp_path: Path) -> None:
    done = run("-m", "workshop", "record", "py-spy", "--", *command)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.glob("py-spy-outputs/*")) == []


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="system calls by their numbers")
def test_where_ptrace_is_forbidden(run: Run, tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY + "work(60)")
    command = ["record", "py-spy", "--", sys.executable, "busy.py"]
    done = run(Path(__file__).with_name("without_ptrace.py"), sys.executable, "-m", "workshop", *command)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [NO_PTRACE]


def test_a_place_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("-m", "workshop", "record", "py-spy", "-o", "file/mine.raw", "--", sys.executable, "-c", "print('ran')")
    assert done.returncode == 2
    assert done.stdout == "", "hours of training would be lost"
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, []),
        ({"SLURM_NODEID": "3", "SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_NNODES": "4"}, ["node3"]),
        ({"SLURM_NODEID": "1", "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}, ["node1", "rank5"]),
        ({"RANK": "2", "GROUP_RANK": "0"}, ["node0", "rank2"]),
    ],
)
def test_files_are_named_by_node_and_rank(environment: dict[str, str], expected: list[str], tmp_path: Path) -> None:
    assert names(environment) == expected
    first = place(f"{tmp_path}/out/", "profile.raw", environment)
    assert first == tmp_path / "out" / ("_".join(["profile", *expected]) + ".raw")
    first.touch()
    second = place(f"{tmp_path}/out", "profile.raw", environment)
    assert second == first.with_name(f"{first.stem}-2.raw"), "nothing is overwritten"
    assert place(f"{tmp_path}/mine.txt", "profile.raw", environment).name.startswith("mine")


JOB = """
srun() { shift 3; SLURM_NODEID=0 "$@"; }
scontrol() { echo node7; }
torchrun() { printf '%s\\n' torchrun "$@"; }
workshop() { printf '%s\\n' workshop "$@"; }
export -f workshop
SLURM_NNODES=2 SLURM_GPUS_PER_NODE=a100:4 SLURM_JOB_ID=5 SLURM_JOB_NODELIST='node[7-8]'
"""


@pytest.mark.parametrize("start", [["python"], ["torchrun"], []])
def test_the_block_for_a_job_script(start: list[str], run: Run, tmp_path: Path) -> None:
    """The shell makes of it what it should; only SLURM itself is played."""
    done = run("-m", "workshop", "record", "py-spy", "--idle", "--slurm", "--", *start, "train.py", "a b", 'c$d"e')
    assert done.returncode == 0, done.stderr
    (tmp_path / "job.sh").write_text(JOB + done.stdout)
    told = subprocess.run(["bash", tmp_path / "job.sh"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert told == [
        *["workshop", "record", "py-spy", "-o", "py-spy-outputs/", "--rate", "100", "--idle", "--", "torchrun"],
        *["--nnodes=2", "--nproc_per_node=4", "--rdzv_id=5", "--rdzv_conf=is_host=1", "--rdzv_backend=c10d"],
        *["--rdzv_endpoint=node7:29500", "train.py", "a b", 'c$d"e'],
    ]
