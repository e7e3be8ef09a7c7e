"""What `workshop measure` finds in real trainings, which know nothing of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import visited
from conftest import Once, Run

from workshop.probe.phases import Phase

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOREIGN = Path(__file__).parents[1] / "foreign"
PHASES = [str(phase) for phase in Phase]
SAMPLES_IN_A_STEP = {"functional_loss": 8, "accumulation": 64, "several_models": 12, "iterable": 32, "by_hand": 8}
Found = dict[str, Any]
pytestmark = pytest.mark.usefixtures("quick_trials")


def of(*values: object) -> Any:
    """A case of a parametrised test that is one of many of its kind."""
    return pytest.param(*values, marks=pytest.mark.acceptance)


def in_ci(*values: object) -> Any:
    """A case that stands for its kind in every change's tests."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture
def measured(workshop: Run) -> Callable[..., Found]:
    """What `workshop measure --json` says of a script; its phases always sum to the time of its steps."""

    def measure(seconds: float, samples_in_a_step: int | None, *command: str | Path) -> Found:
        done = workshop("measure", "--json", "--seconds", str(seconds), *command)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        for steps in filter(None, (found["steps"], found["headroom"])):
            assert list(steps["phases_s"]) == PHASES
            assert sum(steps["phases_s"].values()) == pytest.approx(sum(steps["durations_s"]), rel=0.01)
            assert samples_in_a_step in (None, steps["samples"] / steps["count"])
        return found

    return measure


SHOWN = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 48
    def __getitem__(self, index):
        time.sleep(0.03)
        return {"x": torch.ones(8) * index, "labels": index % 3}

model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader, valid = DataLoader(Slow(), 6), DataLoader(torch.randn(20, 8), 10)
for turn in range(1_000_000):
    for number, batch in enumerate(loader):
        y = batch.pop("labels")
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch["x"].mul_(1e-3)), y).backward()
        optimizer.step()
        time.sleep(0.04)
        if number % 4 == 0:
            with torch.no_grad():
                for x in valid:
                    model(x)
                    time.sleep(0.1)
    if turn == 0:
        optimizer = torch.optim.Adam(model.parameters())
"""
"""Items that are slow, work of its own in each step, a validation now and then, batches that are taken apart, and an
optimizer that is replaced."""


@pytest.fixture
def shown(once: Once, workshop: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which `SHOWN` was measured: what was printed, the page, and what was saved."""

    def measure(folder: Path) -> None:
        monkeypatch.chdir(folder)
        (folder / "mine.py").write_text(SHOWN)
        done = workshop("measure", "--seconds", "4", "--html", "page.html", "--save", "found.json", "mine.py")
        assert done.returncode == 0, done.stderr
        (folder / "printed.txt").write_text(done.stdout)

    return once("measured", measure)


def line_with(text: str) -> int:
    return next(number for number, line in enumerate(SHOWN.splitlines(), 1) if text in line)


@pytest.mark.slow
def test_the_line_the_cause_and_the_gain(shown: Path) -> None:
    line, found = line_with("0.03"), json.loads((shown / "found.json").read_text())
    first = found["findings"][0]
    assert (first["cause"], first["line"], first["function"]) == ("slow-item", line, "__getitem__")
    assert (first["phase"], first["process"], Path(first["file"]).name) == ("data wait", "training", "mine.py")
    assert first["words"].endswith(" See part 5.")
    assert first["ms_a_step"] > 0.9 * 6 * 30, "six items sleep for 30 ms each"
    printed = (shown / "printed.txt").read_text()
    assert f"1. slow-item  mine.py:{line}, in __getitem__\n       time.sleep(0.03)\n" in printed


@pytest.mark.slow
def test_what_a_real_loop_does_besides(shown: Path) -> None:
    found = json.loads((shown / "found.json").read_text())
    lines = {(each["cause"], each["line"]) for each in found["findings"]}
    assert ("own-work", line_with("0.04")) in lines
    (validates,) = (each for each in found["findings"] if each["cause"] == "periodic-work")
    assert (validates["phase"], validates["line"]) == ("validation", line_with("0.1)"))
    assert validates["decided_in"][1] == line_with("number % 4")
    assert {each["phase"] for each in found["lines"]} >= {"data wait", "other", "validation"}


@pytest.mark.slow
def test_the_same_steps_with_batches_from_memory(shown: Path) -> None:
    found = json.loads((shown / "found.json").read_text())
    steps, headroom = found["steps"], found["headroom"]
    assert steps["samples"] == 6 * steps["count"]
    assert headroom["samples"] == 6 * headroom["count"]
    assert headroom["phases_s"]["data wait"] / headroom["count"] < steps["phases_s"]["data wait"] / steps["count"] / 2
    assert "inference-mode" in {each["name"] for each in found["trials"]}


@pytest.mark.slow
def test_the_page_shows_the_same(shown: Path, browser: "Browser") -> None:
    found = json.loads((shown / "found.json").read_text())
    first = found["findings"][0]
    with visited(browser, shown / "page.html") as page:
        assert page.locator("#findings li").first.inner_text().removeprefix("about ").startswith(first["speedup"])
        duration_ms, *rest = page.locator("tr.found").first.inner_text().split()
        assert float(duration_ms) == pytest.approx(first["ms_a_step"], rel=0.02), "both are rounded"
        assert rest == [str(first["line"]), "time.sleep(0.03)"]
        assert page.locator("svg rect").count() == found["steps"]["count"]


def test_every_foreign_script_is_tried() -> None:
    assert {path.stem for path in FOREIGN.glob("*.py")} == SAMPLES_IN_A_STEP.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES_IN_A_STEP)
def test_a_foreign_script(name: str, measured: Callable[..., Found]) -> None:
    found = measured(0.6, SAMPLES_IN_A_STEP[name], FOREIGN / f"{name}.py", "1e-2")
    computes = ["forward", "backward", *["optimizer"] * (name != "by_hand")]
    for steps in (found["steps"], found["headroom"]):
        assert all(steps["phases_s"][phase] > 0 for phase in computes)
    waits_s = [each["phases_s"]["data wait"] / each["count"] for each in (found["headroom"], found["steps"])]
    assert waits_s[0] < waits_s[1]


IN_MEMORY = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def main():
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn({items}, 32), torch.randint(0, 4, ({items},)))
    loader = DataLoader(data, batch_size={size}, shuffle=True, num_workers=2, {settings})
    model = nn.Linear(32, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range({epochs}):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "settings"),
    [
        ("worker-restarts", {"items": 400, "size": 50, "epochs": 10_000, "settings": "timeout=60"}),
        ("single-items", {"items": 60_000, "size": 2000, "epochs": 10_000, "settings": "persistent_workers=True"}),
    ],
)
def test_what_only_a_trial_of_the_loading_shows(
    cause: str, settings: dict[str, Any], measured: Callable[..., Found], tmp_path: Path
) -> None:
    """Epochs are short, so that many are seen on any machine: their pauses are no chance."""
    (tmp_path / "mine.py").write_text(IN_MEMORY.format(**settings))
    found = measured(6, settings["size"], "mine.py")
    first = found["findings"][0]
    assert (first["cause"], first["line"]) == (cause, 9)
    assert found["headroom"]
    assert found["whole_batches"]


IN_OTHER_PROCESSES = """
import sys, torch
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def train(rank, model):
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        for (x,) in DataLoader(TensorDataset(torch.randn(64, 32)), 8):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

if __name__ == "__main__":
    mp.start_processes(train, (nn.Linear(32, 4).share_memory(),), int(sys.argv[2]), start_method=sys.argv[1])
"""


@pytest.mark.parametrize(("how", "processes"), [in_ci("fork", 1), in_ci("spawn", 2), of("fork", 2), of("spawn", 1)])
def test_a_training_in_processes_that_the_script_starts(
    how: str, processes: int, measured: Callable[..., Found], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(IN_OTHER_PROCESSES)
    found = measured(0.5, 8, "--no-headroom", "mine.py", how, str(processes))
    assert len(found["ranks"]) == (processes if processes > 1 else 0)
    assert "slow-rank" not in {each["cause"] for each in found["findings"]}, "they never wait for each other"


@pytest.mark.slow
def test_a_step_that_is_waited_for_is_followed_by_what_was_seen(
    workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workshop.runs.script.SILENCE_S", 0.5)
    (tmp_path / "mine.py").write_text("import time, torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\ntime.sleep(5)")
    done = workshop("-v", "measure", "mine.py")
    assert done.returncode == 2
    assert "no end of a step yet; so far forward 1, backward 0, optimizer 0" in done.stderr
    assert "1 forward pass, no backward pass" in done.stderr.splitlines()[-1]
    assert "the hooks into the training are in place" in done.stderr, "the log"


@pytest.mark.acceptance
def test_the_untouched_script(
    measured: Callable[..., Found], project: Path, data: Path, write_config: Callable[..., Path]
) -> None:
    """It ends before its steps from memory can be measured, and is started again for them."""
    config = write_config(batch_size=4, max_items=32, max_epochs=2, image_size=64, wasted_time=0.1)
    found = measured(14, 4, project / "train.py", config, "--data", data, "--device", "cpu")
    assert 10 <= found["steps"]["count"] <= 13, "all but those that warmed up"
    assert found["headroom"]
    assert max(PHASES, key=found["steps"]["phases_s"].__getitem__) == "data wait"


BATCHES = SHOWN.partition("for turn")[0]


@pytest.mark.parametrize(
    ("loop", "has_headroom"),
    [
        of("while True:\n    for batch in loader:\n        for _ in range(50):\n            step(**batch)", True),
        in_ci(
            """
@torch.no_grad()
def batches():
    for batch in loader:
        yield Batch(batch["x"] / 48, batch["labels"])

for _ in range(50):
    for batch in batches():
        step(batch.x, batch.labels)
raise KeyError("a bug in the end")
""",
            False,
        ),
    ],
    ids=["many steps for a batch", "batches in a dataclass, made where gradients are off"],
)
def test_other_loops(loop: str, has_headroom: bool, measured: Callable[..., Found], tmp_path: Path) -> None:
    begin = """
import dataclasses

@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    labels: torch.Tensor

def step(x, labels):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), labels).backward()
    optimizer.step()

"""
    (tmp_path / "mine.py").write_text(BATCHES + begin + loop)
    found = measured(0.5, None, "mine.py")
    assert (found["headroom"] is not None) == has_headroom
    assert found["steps"]["phases_s"]["validation"] == 0
    assert any(note.startswith("No headroom: ") for note in found["notes"]) != has_headroom


VALIDATED = """
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(20)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
valid = DataLoader(torch.randn(200, 32), 10)
for step in range(100_000):
    optimizer.zero_grad({clears})
    model(torch.randn(64, 32)).square().mean().backward()
    optimizer.step()
    if step % 10 == 0:
        with torch.{mode}():
            for batch in valid:
                model(batch)
"""


@pytest.mark.parametrize(
    ("clears", "mode", "tries"),
    [in_ci("set_to_none=False", "no_grad", {"set-to-none", "inference-mode"}), of("", "inference_mode", set())],
)
def test_what_is_tried_depends_on_what_the_script_says(
    clears: str, mode: str, tries: set[str], measured: Callable[..., Found], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(VALIDATED.format(clears=clears, mode=mode))
    found = measured(1, None, "mine.py")
    tried = {each["name"]: each for each in found["trials"]}
    assert tried.keys() & {"set-to-none", "inference-mode"} == tries
    assert {(tried[each]["error"], tried[each]["results"]) for each in tries} <= {("", "The results are the same.")}
    if tries:
        assert tried["inference-mode"]["times"] == pytest.approx(2, rel=0.3), "20 batches once in 10 steps"
    for each in found["findings"]:
        if each["cause"] == "set-to-none":
            assert "zero_grad" in (tmp_path / "mine.py").read_text().splitlines()[each["line"] - 1]


THREE_FAULTS = """
import gc, torch
from torch import nn
from torch.nn import functional

class Mixes(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 96)
    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        return {mixed}

stays = [[number] for number in range(200_000)]
model = nn.Sequential(*(Mixes() for _ in range(4)))
optimizer = torch.optim.AdamW({groups})
for step in range(100_000):
    optimizer.zero_grad()
    model(torch.randn(8, 64, 32)).square().mean().backward()
    optimizer.step()
    {ends}
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_faulty", [True, False])
def test_what_is_tried_depends_on_what_the_script_does(
    is_faulty: bool, measured: Callable[..., Found], tmp_path: Path
) -> None:
    mixed, groups, ends = "functional.scaled_dot_product_attention(q, k, v)", "model.parameters()", "pass"
    if is_faulty:
        mixed, ends = "(q @ k.mT / 32**0.5).softmax(-1) @ v", "step % 8 or gc.collect()"
        groups = "[{'params': [each]} for each in model.parameters()]"
    (tmp_path / "mine.py").write_text(THREE_FAULTS.format(mixed=mixed, groups=groups, ends=ends))
    found = measured(1, None, "mine.py")
    tried = {each["name"]: each for each in found["trials"]}
    faults = {"garbage-collector", "merged-groups", "attention-by-hand"}
    assert tried.keys() & faults == (faults if is_faulty else set())
    if is_faulty:
        assert {(tried[each]["error"], tried[each]["setting"]) for each in faults} == {("", ""), ("", "1 instead of 8")}
        assert tried["garbage-collector"]["times"] == pytest.approx(1 / 8, rel=0.3)
        lines = (tmp_path / "mine.py").read_text().splitlines()
        assert [
            lines[each["line"] - 1].strip() for each in found["findings"] if each["cause"] == "garbage-collector"
        ] == [ends]


COMPILED = """
import os, torch
from torch import nn
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.abspath("cache")
model = torch.compile(nn.Sequential(nn.Linear(8, 2000), nn.GELU(), nn.Linear(2000, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.ones(600, 8), torch.zeros(600, dtype=torch.long)
for _ in range(100_000):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.acceptance
def test_what_torch_compile_has_written_is_nobodys_line(measured: Callable[..., Found], tmp_path: Path) -> None:
    """Wherever it lies, and though it takes most of the time."""
    (tmp_path / "mine.py").write_text(COMPILED)
    found = measured(0.5, 600, "--no-headroom", "mine.py")
    assert found["lines"]
    assert {Path(each["file"]).name for each in found["lines"]} == {"mine.py"}


def by_name(script: Path) -> Any:
    """Two ranks, and a script without a DataLoader, stand for the others in the tests of a change."""
    mark = pytest.mark.slow if script.stem in ("with_ranks", "with_get_batch") else pytest.mark.acceptance
    return pytest.param(script, marks=mark, id=script.stem)


@pytest.mark.parametrize("script", [*map(by_name, sorted(FOREIGN.with_name("frameworks").glob("*.py")))])
def test_in_a_framework_the_planted_sleep_is_the_first_finding(script: Path, workshop: Run) -> None:
    torchrun = ["torchrun", "--nproc_per_node=2"] if script.stem == "with_ranks" else []
    done = workshop("measure", "--json", "--seconds", "2", "--no-headroom", *torchrun, script)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    first = found["findings"][0]
    assert "time.sleep" in script.read_text().splitlines()[first["line"] - 1]
    assert first["file"] == str(script)
    if torchrun:
        assert (first["cause"], first["phase"], first["process"]) == ("slow-rank", "data wait", "rank 1")
        waits = {each["rank"]: each["waits_ms"] for each in found["ranks"]}
        assert waits[0] > waits[1]
