"""`workshop record torch`, with the real torch.profiler in real trainings; and the line that nsys would run with."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import Run

from workshop.errors import WorkshopError
from workshop.profiles.traces import load, read
from workshop.profiles.traces.steps import steps, stragglers
from workshop.recording import torch_profiler, torch_run

TRAINING = """
import sys, torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""

RANKS = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    time.sleep(0.1 * dist.get_rank())
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def record(run: Run, *arguments: str | Path, **options: object):
    return run("-m", "workshop", "record", "torch", *arguments, **options)


def test_the_slow_script(
    project: Path, data: Path, write_config: Callable[..., Path], run: Run, tmp_path: Path
) -> None:
    """Two cycles of one step waited, one thrown away, two kept."""
    shutil.copy(project / "train.py", tmp_path)
    schedule = ("--wait", "1", "--warmup", "1", "--active", "2", "--repeat", "2")
    config = write_config(batch_size=2, max_items=8, wasted_time=0.05)
    done = record(run, *schedule, "--", "train.py", config, "--data", data, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "2 traces in prof" in done.stderr
    first, second = (read(tmp_path / "prof" / f"rank0.cycle{cycle}.pt.trace.json.gz") for cycle in range(2))
    assert [[step.number for step in steps(trace)] for trace in (first, second)] == [[2, 3], [6, 7]]
    for step in (*steps(first), *steps(second)):
        assert step.phases["data wait"] >= 2 * 0.05e9
        assert all(step.phases[phase] > 0 for phase in ("forward", "backward", "optimizer"))
    text = (tmp_path / "prof" / torch_profiler.LIST).read_text()
    assert "convolution" in text
    assert "Memory of the process" in text
    assert text.count("rank0.cycle") == 2
    assert "data" in run("-m", "workshop", "trace", "prof", "--only", "steps").stdout


@pytest.mark.slow
def test_two_ranks_and_the_slow_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    torchrun = shutil.which("torchrun") or "torchrun"
    command = ("--", torchrun, "--standalone", "--nproc_per_node=2", "ranks.py")
    done = record(run, "--wait", "1", "--warmup", "1", "--active", "3", *command)
    assert done.returncode == 0, done.stderr
    traces = load([tmp_path / "prof"])
    assert list(traces) == [0, 1]
    assert [row["rank"] for row in stragglers(traces)] == [1, 0]
    assert (tmp_path / "prof" / "profiler_list.rank1.dat").exists()
    assert "Ranks in an average step" in run("-m", "workshop", "trace", "prof").stdout


@pytest.mark.slow
def test_no_run_overwrites_another(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRAINING)
    short = ("--wait", "0", "--warmup", "1", "--active", "1", "--", "mine.py", "3")
    assert record(run, *short).returncode == 0
    assert "1 trace in prof-2" in record(run, *short).stderr
    assert len(list(tmp_path.glob("prof*/*.json.gz"))) == 2


@pytest.mark.parametrize(
    ("script", "arguments", "says"),
    [
        (TRAINING, ["mine.py", "4"], "ended after 4 optimizer steps, and step 8 is the first to be kept; say --wait 0"),
        pytest.param("print('hello')", ["mine.py"], "never made an optimizer of torch", marks=pytest.mark.slow),
        ("raise SystemExit(7)", ["mine.py"], "ended with exit code 7 after 0 optimizer steps"),
        ("", ["missing.py"], "missing.py is not a file"),
        pytest.param("", ["no-such-command"], "there is no command no-such-command", marks=pytest.mark.slow),
    ],
)
def test_nothing_to_record(script: str, arguments: list[str], says: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(script)
    done = record(run, "--", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "prof").exists()


@pytest.mark.slow
def test_the_exit_code_of_a_script_that_breaks_after_its_trace(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRAINING + "raise SystemExit(3)")
    done = record(run, "--wait", "0", "--warmup", "1", "--active", "1", "--", "mine.py", "3")
    assert done.returncode == 3
    assert len(list(tmp_path.glob("prof/*.json.gz"))) == 1


def test_as_a_context(tmp_path: Path) -> None:
    model = torch.nn.Linear(8, 2)
    ready: list[object] = []

    def handler(profiler: torch.profiler.profile) -> None:
        ready.append(profiler)
        profiler.export_chrome_trace(str(tmp_path / f"mine{len(ready)}.json"))

    options = {"prof_dir": str(tmp_path), "record_shapes": True, "tensorboard": True, "on_trace_ready": handler}
    with torch_profiler.profile(wait=1, warmup=1, active=2, repeat=2, **options) as prof:
        for _ in range(9):
            with torch.profiler.record_function("my own part"):
                model(torch.ones(4, 8))
            prof.step()
    assert ready == [prof, prof]
    assert [[step.number for step in steps(read(tmp_path / f"mine{n}.json"))] for n in (1, 2)] == [[2, 3], [6, 7]]
    assert len(list((tmp_path / "tensorboard").glob("*.pt.trace.json.gz"))) == 2
    trace = read(tmp_path / "rank0.cycle0.pt.trace.json.gz")
    assert {"my own part", "aten::addmm"} <= set(trace.names)
    assert [step.number for step in steps(trace)] == [2, 3]


def test_an_activity_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(WorkshopError, match="there is no activity gpu; there are cpu, cuda"):
        torch_profiler.Recorder(torch_profiler.Options(activities=("gpu",), prof_dir=str(tmp_path)))


@pytest.mark.skipif(shutil.which("nsys") is not None, reason="nsys is here")
def test_without_nsys_the_command_is_printed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRAINING)
    done = run("-m", "workshop", "record", "nsys", "--run-as", "me", "--", "mine.py", "5")
    assert done.returncode == 2
    assert done.stderr.startswith("there is no nsys here")
    assert done.stdout.startswith("nsys profile --trace=cuda,nvtx")
    assert {"--cuda-memory-usage=true", "--gpu-metrics-devices=all"} <= set(done.stdout.split())
    assert done.stdout.split()[-3:] == [sys.executable, "mine.py", "5"]


def test_marked_phases_do_not_disturb_a_training(project: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRAINING)
    inject = str(project / "workshop" / "harness" / "inject")
    done = run("mine.py", "3", environment={"PYTHONPATH": inject, "WORKSHOP_NVTX": "1"})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_job_script_says_what_was_asked_for() -> None:
    options = torch_profiler.Options(wait=1, with_stack=True, activities=("cpu",))
    script = torch_run.slurm_job(["workshop", "torchrun", "train.py", "config.py"], options)
    assert "workshop record torch --wait 1 --activities cpu --with-stack -- torchrun" in script
    assert script.rstrip().endswith('train.py config.py"')
    assert script.startswith("#!/bin/bash\n#SBATCH ")
