"""`workshop memory` on real scripts: with a planted fault, and their twins."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Once, Run
from made_memory import MIB, STACK, look, made_memory, report, row, segment

from workshop.cli.finding_text import print_changes
from workshop.cli.memory_text import print_memory
from workshop.diagnosis.change import Change, Measure
from workshop.memory.memory_diagnosis import MemoryDiagnosis
from workshop.probe.memory.memory_notes import HeldObject, HeldObjects

FRAMEWORKS = Path(__file__).parents[1] / "frameworks"

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

def make():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
"""

LOOP = """
def main():
    data = TensorDataset(torch.randn(4096, 64), torch.randint(10, (4096,)))
    model = make()
    optimizer = torch.optim.Adam(model.parameters())
    history = []
    for epoch in range(10_000):
        for x, y in DataLoader(data, batch_size=512):
            optimizer.zero_grad()
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            {body}

main()
"""

WORKERS = """
class Names(Dataset):
    def __init__(self):
        self.names = {names}
        self.numbers = torch.arange(500_000)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return torch.full((64,), float(len(str(self.names[index])) + self.numbers[index % 500_000]))

def main():
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10_000):
        for x in DataLoader(Names(), batch_size=64, shuffle=True, num_workers=2):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

if __name__ == "__main__":
    main()
"""

DEADLY = """
import os

class Deadly:
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        self.loaded = getattr(self, "loaded", 0) + 1
        if self.loaded > 20_000:
            os.kill(os.getpid(), 9)
        return index
"""

OOM = """
import resource

def main():
    model = make()
    held = []
    with open("/proc/self/statm") as file:
        limit = int(file.read().split()[0]) * 4096 + (600 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        x = torch.randn(20_000, 64)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        held.append(x)

main()
"""


Memory = Callable[..., Any]


@pytest.fixture
def memory(workshop: Run, tmp_path: Path) -> Memory:
    """What `workshop memory` says of a script, whose first lines are `HEAD`, in the folder of the test."""

    def measure(script: str, *options: str, code: int = 0, seconds: float = 3.0) -> Any:
        (tmp_path / "script.py").write_text(HEAD + script)
        done = workshop("memory", "--seconds", str(seconds), *options, "script.py")
        assert done.returncode == code, done.stderr + done.stdout
        return json.loads(done.stdout) if "--json" in options else done.stdout

    return measure


def faults(found: Any) -> list[str]:
    return [each["cause"] for each in found["findings"] if each["cause"] != "checkpointing"]


def test_what_python_holds_is_told_with_its_length_or_its_shape(capsys: pytest.CaptureFixture[str]) -> None:
    rows = HeldObject("rows", STACK, "list", 5000, 3 * MIB)
    past = HeldObject("past", STACK, "ndarray", 4, 2 * MIB, dtype="float32", shape=(4, 2))
    held = [HeldObjects(0.0, 7, 1, 10, (rows, past))]
    print_memory("train.py", MemoryDiagnosis(made_memory(held=held, segments=[segment(1)])))
    told = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert told[(at := told.index("held in Python MiB what it is filled at")) + 1].startswith("rows 3.0 list of 5000")
    assert told[at + 2].startswith("past 2.0 ndarray of float32, 4 x 2")


def test_the_tables_fit_into_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("workshop.cli.output.terminal_width", lambda: 80)
    stack = (("a_function_with_a_rather_long_name", "a_script_with_a_rather_long_name.py", 1234),)
    steps = []
    for number in range(10):
        size = number << 30
        held = {"holder": "tracker.history_of_everything[...]", "holder_stack": stack, "older": (size, size, number)}
        rows = (row("parameters", 123_456), row("others", 1024 * number, **held))
        steps.append(segment(3 * number, *rows, peak=234_567 + number, recorded_steps=number + 1))
    many = {f"p{pid}": 123_456 for pid in range(7, 20)}
    diagnosis = MemoryDiagnosis(
        made_memory(look(1.0, **many), look(9.0, **many), reports=(report(5.0),), segments=steps, stacks=[stack])
    )
    print_memory("train.py", diagnosis)
    name = "activations, a_function_with_a_rather_long_name: hidden = self.layer(inputs)"
    print_changes([Change(name, 99_999 << 20, 99_998 << 20, margin=1 << 20, measure=Measure.BYTES)])
    text = capsys.readouterr().out
    tables = [each for each in text.splitlines() if not re.match(r"\d\. |train.py: |The line ", each)]
    assert "held by tracker.history" in text
    assert "within the noise" in text
    assert max(map(len, tables)) <= 80, max(tables, key=len)


def test_there_is_no_such_script(workshop: Run) -> None:
    done = workshop("memory", "none.py")
    assert done.returncode == 2
    assert "none.py is not a file" in done.stderr


COLLECTS = LOOP.format(body="history.append(out.detach().softmax(1))")


@pytest.fixture
def collected(once: Once, memory: Memory, tmp_path: Path) -> Path:
    """The folder in which a script was measured that collects its outputs: what was saved, the page, and SARIF."""

    def measure(folder: Path) -> None:
        text = memory(COLLECTS, "--save", "found.json", "--html", "page.html", "--format", "sarif=found.sarif")
        (tmp_path / "printed.txt").write_text(text)
        shutil.copytree(tmp_path, folder, dirs_exist_ok=True)

    return once("memory", measure)


@pytest.mark.slow
def test_outputs_that_are_collected(collected: Path) -> None:
    found = json.loads((collected / "found.json").read_text())
    assert faults(found) == ["outputs-kept"]
    finding = found["findings"][0]
    [reported] = json.loads((collected / "found.sarif").read_text())["runs"][0]["results"]
    assert reported["ruleId"] == "outputs-kept"
    assert reported["locations"][0]["physicalLocation"]["region"]["startLine"] == finding["line"]
    assert finding["holder"].startswith("history")
    lines = (collected / "script.py").read_text().splitlines()
    assert "history.append" in lines[finding["line"] - 1]
    assert finding["bytes_a_step"] == pytest.approx(512 * 10 * 4, rel=0.1)
    assert "outputs-kept" in (collected / "printed.txt").read_text()
    assert "outputs-kept" in (collected / "page.html").read_text()


@pytest.mark.slow
def test_the_rows_of_a_peak_are_what_the_allocator_says(collected: Path) -> None:
    peak = json.loads((collected / "found.json").read_text())["peaks"][0]
    assert sum(peak["kinds"].values()) == peak["peak_bytes"]
    assert abs(peak["followed_bytes"] - peak["allocator_bytes"]) <= 0.02 * peak["allocator_bytes"]


@pytest.mark.slow
def test_a_twin_without_the_fault_and_what_has_changed(collected: Path, memory: Memory, tmp_path: Path) -> None:
    twin = LOOP.format(body="history = [loss.item()]")
    text = memory(twin, "--against", str(collected / "found.json"), "--save", "found.json")
    assert faults(json.loads((tmp_path / "found.json").read_text())) == []
    assert "growth in 1000 steps" in text


@pytest.mark.slow
def test_a_list_of_strings_is_copied_by_forked_workers_and_an_array_is_not(memory: Memory) -> None:
    strings = '[f"item-{each:09d}" for each in range(500_000)]'
    found = memory(WORKERS.format(names=strings), "--json", seconds=6.0)
    (finding,) = (each for each in found["findings"] if each["cause"] == "shared-objects")
    assert finding["holder"] == "dataset.names", "and not the array beside it"
    assert 2 * 20e6 < finding["gain_bytes"] < 2 * 60e6
    assert [each["role"] for each in found["host"]["processes"]].count("worker") == 2
    assert {each["role"] for each in found["host"]["processes"]} >= {"training", "worker"}


@pytest.mark.acceptance
def test_workers_that_begin_in_a_recorded_step_record_nothing(memory: Memory) -> None:
    """The first step begins before its DataLoader's workers do, and the allocator's events are asked for in it."""
    small = WORKERS.replace("torch.full((64,), float(", "torch.cat([torch.ones(1) for _ in range(64)]) * (float(")
    found = memory(small.format(names="range(10_000_000)"), "--json", seconds=6.0)
    workers = [each for each in found["host"]["processes"] if each["role"] == "worker"]
    assert len(workers) == 2
    assert max(each["grown_bytes"] for each in workers) < 50 << 20


@pytest.mark.acceptance
def test_a_dataset_that_moves_to_spawned_workers_counts_once(memory: Memory) -> None:
    spawned = WORKERS.replace("num_workers=2", "num_workers=1, multiprocessing_context='spawn'")
    found = memory(spawned.format(names="torch.zeros(2_000_000)"), "--json", seconds=6.0)
    [peak] = found["peaks"]
    assert peak["allocator_bytes"] == peak["followed_bytes"]
    assert 8_000_000 in [each["bytes"] for each in peak["lines"] if each["function"] == "__init__"]


@pytest.mark.slow
def test_running_out_of_memory_ends_in_the_table(memory: Memory, tmp_path: Path) -> None:
    text = memory(OOM, "--html", "page.html", code=5, seconds=60.0)
    assert "The script ran out of memory:" in text
    assert "This was held when the allocation failed." in text
    held = re.search(r"script\.py:(\d+), main.* held by held\[\.\.\.\]", text)  # after what failed
    assert held, text
    assert "x = torch.randn(20_000, 64)" in (tmp_path / "script.py").read_text().splitlines()[int(held[1]) - 1]
    assert "The script ran out of memory" in (tmp_path / "page.html").read_text()


KILLED = LOOP.format(body="import os; os.kill(os.getpid(), 9) if epoch == 20 else None")


@pytest.mark.parametrize(
    ("script", "says"),
    [
        pytest.param(KILLED, "The script was killed by SIGKILL after", marks=pytest.mark.slow),
        # What torch says of it differs from run to run, and so do our words: see tests/memory/test_memory_run.py.
        pytest.param(DEADLY + WORKERS.format(names="Deadly()"), "parameters", marks=pytest.mark.acceptance),
    ],
    ids=["the script", "a worker"],
)
def test_what_the_system_kills_ends_in_the_table(script: str, says: str, memory: Memory) -> None:
    text = memory(script, code=5, seconds=60.0)
    assert says in text
    assert "parameters" in text


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("with_ranks", marks=pytest.mark.slow),
        *(
            pytest.param(f"with_{each}", marks=pytest.mark.acceptance)
            for each in ("accelerate", "lightning", "trainer")
        ),
    ],
)
def test_wherever_people_train_the_rows_are_what_the_allocator_says(name: str, workshop: Run) -> None:
    torchrun = ["torchrun", "--nproc_per_node=2"] if name == "with_ranks" else []
    done = workshop("memory", "--json", "--seconds", "3", *torchrun, FRAMEWORKS / f"{name}.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    [peak] = found["peaks"]
    about = pytest.approx(peak["peak_bytes"], rel=0.02, abs=4096)  # the allocator's sizes are rounded up
    assert sum(each["bytes"] for each in peak["lines"]) == about
    assert sum(peak["kinds"].values()) == about
    assert peak["followed_bytes"] == pytest.approx(peak["allocator_bytes"], rel=0.02, abs=4096)
    assert faults(found) == []
    assert [(each["rank"], bool(each["peaks"]["cpu"])) for each in found["ranks"]] == [(0, True), (1, True)] * bool(
        torchrun
    )
