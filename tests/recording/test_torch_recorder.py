"""`workshop record torch`, with the real torch.profiler in real trainings."""

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from conftest import Run
from script_runs import press_ctrl_c, started

from workshop.errors import EXIT_CRASHED
from workshop.probe import torch_profiler, wire
from workshop.probe.phases import Phase
from workshop.probe.settings import OPERATORS, REPORTS, ProfilerOptions, ProfilerReport
from workshop.probe.torch_profiler import ScriptRecording, ctrl_c_held_back
from workshop.recording import torch_recorder
from workshop.traces import read
from workshop.traces.steps import stragglers, traced_steps
from workshop.traces.trace import Trace
from workshop.traces.trace_files import load

Left = Callable[[], list[psutil.Process]]
Recording = Callable[..., Callable[[], None]]

TRAINING = """
import sys, torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    if step == 20:
        print("many steps", flush=True)
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
dist.barrier()  # a rank that ends while another one computes is now and then aborted by torch
dist.destroy_process_group()
time.sleep(0.5)
"""

PLAYED = """
import os, sys, time
from pathlib import Path
from workshop.probe import wire
from workshop.probe.activity import note
from workshop.probe.observations import ProcessActivity
from workshop.probe.settings import PROFILER_VARIABLE, REPORTS, ProfilerReport

options = wire.decode(os.environ[PROFILER_VARIABLE])

def trace(cycle=0, rank=0):
    Path(options.prof_dir, f"rank{rank}.cycle{cycle}.pt.trace.json.gz").write_bytes(b"a trace")

def report(steps):
    Path(options.folder, REPORTS).write_text(wire.encode(ProfilerReport(0, steps, 0)) + "\\n")
"""
"""The beginning of a script that trains nothing, and leaves what a recorded training leaves."""

ONE_STEP = ("--wait", "0", "--warmup", "1", "--active", "1", "--")


@pytest.fixture
def record(workshop: Run) -> Run:
    """Record a command; what is caught is what the workshop itself says."""
    return lambda *arguments: workshop("record", "torch", *arguments)


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    """Record what is trained in this process; what comes out is called as a process ends."""
    ends: list[Callable[[], None]] = []
    started: list[ScriptRecording] = []
    monkeypatch.setattr(torch_profiler, "at_process_end", ends.append)

    def start(**options: Any) -> Callable[[], None]:
        started.append(ScriptRecording(ProfilerOptions(prof_dir=str(tmp_path), folder=str(tmp_path), **options)))
        started[0].hooks.install()
        return lambda: ends[0]()

    yield start
    started[0].hooks.remove()
    assert started[0].recorder
    started[0].recorder.put_scopes_back()


def train(steps: int, scope: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        with scope():
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()


def reported(folder: Path) -> list[ProfilerReport]:
    return [wire.decode(line) for line in (folder / REPORTS).read_text().splitlines()]


def numbers(trace: Trace) -> list[int]:
    """The numbers of the steps, each of which holds one step of the optimizer, whole."""
    steps, events = traced_steps(trace), trace.events
    optimizers = np.flatnonzero(trace.named(r"Optimizer\.step#"))
    assert [
        [step.number for step in steps if step.start <= events.ts[row] and events.end[row] <= step.end]
        for row in optimizers[np.argsort(events.ts[optimizers])]
    ] == [[step.number] for step in steps]
    return [step.number for step in steps]


@pytest.mark.slow
def test_the_slow_script(
    project: Path, data: Path, write_config: Callable[..., Path], record: Run, workshop: Run, tmp_path: Path
) -> None:
    """Two cycles of one step waited, one thrown away, two kept; then it ends, before all of its epochs."""
    shutil.copy(project / "train.py", tmp_path)
    schedule = ("--wait", "1", "--warmup", "1", "--active", "2", "--repeat", "2")
    config = write_config(batch_size=2, max_items=8, wasted_time=0.05, max_epochs=50)
    done = record("--stop", *schedule, "--", "train.py", config, "--data", data, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "2 traces in prof" in done.stderr
    first, second = (read(tmp_path / "prof" / f"rank0.cycle{cycle}.pt.trace.json.gz") for cycle in range(2))
    assert [numbers(trace) for trace in (first, second)] == [[2, 3], [6, 7]]
    for step in (*traced_steps(first), *traced_steps(second)):
        assert step.phases[Phase.DATA_WAIT] >= 2 * 0.05e9
        assert all(step.phases[phase] > 0 for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER))
    text = (tmp_path / "prof" / OPERATORS).read_text()
    assert "convolution" in text
    assert "Memory of the process" in text
    assert text.count("rank0.cycle") == 2
    assert "data" in workshop("trace", "prof", "--tables", "steps").stdout
    assert sum(path.read_text().count("\n") for path in tmp_path.glob("experiments/*/metrics.csv")) < 20


@pytest.mark.slow
def test_two_ranks_and_the_slow_one(record: Run, workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    command = (shutil.which("torchrun") or "torchrun", "--standalone", "--nproc_per_node=2", "ranks.py")
    done = record("--wait", "1", "--warmup", "1", "--active", "3", "--", *command)
    assert done.returncode == 0, done.stderr
    traces = load([tmp_path / "prof"])
    assert {rank: numbers(trace) for rank, trace in traces.items()} == {0: [2, 3, 4], 1: [2, 3, 4]}
    assert [row["rank"] for row in stragglers(traces)] == [1, 0]
    assert (tmp_path / "prof" / "profiler_list.rank1.dat").exists()
    assert "Ranks in an average step" in workshop("trace", "prof").stdout


def test_no_run_overwrites_another_and_the_exit_code_is_the_scripts(record: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLAYED + "trace()\nsys.exit(3)")
    for folder in ("prof", "prof-2"):
        done = record("mine.py")
        assert f"1 trace in {folder}" in done.stderr
        assert done.returncode == 3
    assert len([*tmp_path.glob("prof*/*.json.gz")]) == 2


def test_steps_are_counted_and_recorded_as_the_schedule_says(recording: Recording, tmp_path: Path) -> None:
    end = recording(wait=1, warmup=1, active=2, repeat=2)
    train(9)
    end()
    assert reported(tmp_path) == [ProfilerReport(0, 9, 2)]
    traces = [read(tmp_path / f"rank0.cycle{cycle}.pt.trace.json.gz") for cycle in range(2)]
    assert [numbers(trace) for trace in traces] == [[2, 3], [6, 7]]


def test_what_was_recorded_of_a_cycle_is_kept_at_the_end_if_there_is_a_step_in_it(
    recording: Recording, tmp_path: Path
) -> None:
    end = recording(wait=0, warmup=1, active=1000)
    train(4)
    end()
    steps = traced_steps(read(tmp_path / "rank0.cycle0.pt.trace.json.gz"))
    assert [step.number for step in steps][:3] == [1, 2, 3]
    assert reported(tmp_path) == [ProfilerReport(0, 4, 1)]


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_recorded(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRAINING)
    schedule = ("--wait", "0", "--warmup", "1", "--active", "1000")
    command = ("-m", "workshop", "record", "torch", *schedule, "--", "mine.py", "1000000")
    with started(tmp_path, *command, ready="many steps") as process:
        press_ctrl_c(process)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "1 trace in prof" in said
    [path] = tmp_path.glob("prof/*.json.gz")
    assert [step.number for step in traced_steps(read(path))][:3] == [1, 2, 3]


def test_ctrl_c_is_held_back_while_a_trace_is_written() -> None:
    """Pressed once; a script that handles it by itself gets it at once."""
    done: list[str] = []

    def write(presses: int) -> None:
        with ctrl_c_held_back():
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)
            done.append("written")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for presses in (1, 2):
            with pytest.raises(KeyboardInterrupt):
                write(presses)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, lambda *_: done.append("handled"))
        write(presses=1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["written", "handled", "written"]


WRITES_SLOWLY = """
import time, torch
export = torch.profiler.profile.export_chrome_trace

def export_slowly(profiler, path):
    print("writing", flush=True)
    time.sleep(1.5)
    export(profiler, path)

torch.profiler.profile.export_chrome_trace = export_slowly
"""


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        pytest.param(("--stop",), "1000000", marks=pytest.mark.slow, id="in a step"),
        pytest.param(("--active", "1000"), "19", marks=pytest.mark.acceptance, id="as the script ends"),
    ],
)
def test_ctrl_c_waits_until_the_last_trace_is_written(schedule: tuple[str, ...], steps: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(WRITES_SLOWLY + TRAINING.replace("step == 20", "False"))
    command = ("-m", "workshop", "record", "torch", *schedule, "--", "mine.py", steps)
    with started(tmp_path, *command, ready="writing") as process:
        press_ctrl_c(process)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "1 trace in prof" in said
    [path] = tmp_path.glob("prof/*.json.gz")
    assert traced_steps(read(path))


GOES_ON = """
trace(0)
time.sleep(0.3)
trace(1)
while not Path("over").exists():
    time.sleep(0.02)
"""


@pytest.mark.parametrize("stop", [False, True])
def test_a_training_that_goes_on_once_the_traces_are_written(
    stop: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said; one that was to stop is ended after a while."""
    monkeypatch.chdir(tmp_path)
    for name, seconds in (("SETTLED_S", 0.1), ("STOP_PATIENCE_S", 0.5)):
        monkeypatch.setattr(torch_recorder, name, seconds)
    monkeypatch.setattr("workshop.recording.run.GRACE_S", 0.5)
    (tmp_path / "mine.py").write_text(PLAYED + GOES_ON)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        (tmp_path / "over").touch()

    found = torch_recorder.record(["mine.py"], ProfilerOptions(repeat=2, stop=stop), say)
    assert (found.exit_code, len(found.traces), found.stopped) == (0, 2, None)
    assert ["2 traces are written to prof, and the training goes on" in text for text in said] == [True] * (not stop)


CATCHES = """
import signal, threading, time, torch
from torch.utils.data import DataLoader
signal.signal(signal.SIGTERM, lambda *_: None)
threading.Thread(target=lambda: time.sleep(1000)).start()
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.ones(8, 8), batch_size=4, num_workers=1, persistent_workers=True)
while True:
    try:
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
            time.sleep(0.1)
    except SystemExit:
        pass
"""

SPAWNS = """
import time, torch, torch.multiprocessing as mp

def train(rank):
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()

if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(CATCHES, marks=pytest.mark.slow, id="catches"),
        pytest.param(SPAWNS, marks=pytest.mark.acceptance, id="spawns"),
    ],
)
def test_a_training_that_does_not_stop_is_ended(
    script: str, record: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_running: Left
) -> None:
    monkeypatch.setattr("workshop.recording.torch_recorder.STOP_PATIENCE_S", 1.0)
    (tmp_path / "mine.py").write_text(script)
    done = record("--stop", *ONE_STEP, "mine.py")
    assert done.returncode == 0, done.stderr
    assert "in prof" in done.stderr
    assert left_running() == []


@pytest.mark.parametrize(
    ("script", "arguments", "says"),
    [
        (PLAYED + "report(4)", ["mine.py"], "ended after 4 steps, and step 8 is the first to be kept; say --wait 0"),
        (PLAYED + "report(4)\nsys.exit(7)", ["mine.py"], "ended with exit code 7 after 4 steps"),
        (
            PLAYED + "note(ProcessActivity(os.getpid(), 'mine.py', forwards=1), options.folder)",
            *(["mine.py"], "1 forward pass, no backward pass"),
        ),
        pytest.param(
            *(TRAINING, ["mine.py", "4"], "ended after 4 steps, and step 8 is the first to be kept; say --wait 0"),
            marks=pytest.mark.acceptance,
        ),
        ("print('hello')", ["mine.py"], "no process has loaded torch"),
        ("raise SystemExit(7)", ["mine.py"], "ended with exit code 7 after 0 steps"),
        ("", ["missing.py"], "missing.py is not a file"),
        ("", ["no-such-command"], "there is no command no-such-command"),
        ("", ["--activities", "gpu", "mine.py"], "there is no activity gpu; there are cpu, cuda"),
    ],
)
def test_nothing_to_record(script: str, arguments: list[str], says: str, record: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(script)
    done = record(*arguments)
    assert done.returncode == (EXIT_CRASHED if "ended with exit code" in says else 2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "prof").exists()


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_a_scope_of_ones_own_over_the_end_of_a_cycle(recording: Recording, tmp_path: Path) -> None:
    """torch crashes where a scope that was entered in one cycle is left in the next."""
    end = recording(wait=0, warmup=0, active=1, repeat=20)
    train(40, scope=lambda: torch.profiler.record_function("all"))
    end()
    assert len(list(tmp_path.glob("*.gz"))) == 20


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
    own = [read(tmp_path / f"mine{number}.json") for number in (1, 2)]
    assert [[step.number for step in traced_steps(trace)] for trace in own] == [[2, 3], [6, 7]]
    assert len(list((tmp_path / "tensorboard").glob("*.pt.trace.json.gz"))) == 2
    trace = read(tmp_path / "rank0.cycle0.pt.trace.json.gz")
    assert {"my own part", "aten::addmm"} <= set(trace.names)
    assert [step.number for step in traced_steps(trace)] == [2, 3]
