"""`workshop measure` on scripts that know nothing of it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import visited
from conftest import Run, of_script
from script_runs import press_ctrl_c, started

from workshop.cli.measurement_text import print_diagnosis
from workshop.diagnosis.diagnosis import diagnose
from workshop.diagnosis.measurement import MeasuredSteps, Measurement
from workshop.diagnosis.samples import Observations
from workshop.probe.messages import Circumstances
from workshop.probe.phases import Phase

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOREIGN = Path(__file__).parents[1] / "foreign"
PHASES = [str(phase) for phase in Phase]
SAMPLES_IN_A_STEP = {"functional_loss": 8, "accumulation": 64, "several_models": 12, "iterable": 32, "by_hand": 8}

Found = dict[str, Any]


@pytest.fixture
def measured(workshop: Run) -> Callable[..., Found]:
    """What `workshop measure --json` says of a script; its phases always sum to the wall clock."""

    def measure(seconds: float, samples_in_a_step: int | None, *command: str | Path) -> Found:
        done = workshop("measure", "--json", "--seconds", str(seconds), *command)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        for steps in filter(None, (found["steps"], found["headroom"])):
            assert list(steps["phases_s"]) == PHASES
            assert sum(steps["phases_s"].values()) == pytest.approx(steps["wall_s"], rel=0.02)
            assert samples_in_a_step in (None, steps["samples"] / steps["count"])
        for each in found["findings"]:
            if each["cause"] != "growing-steps":  # it goes by steps with as much work as most
                step_s = found["steps"]["wall_s"] / found["steps"]["count"]
                assert each["step_ms"] == pytest.approx(1e3 * step_s, rel=0.02)
            seen = each["step_ms"] / max(each["step_ms"] - each["saved_ms"], 1e-9)
            assert each["gain"] == pytest.approx(min(1 + each["margin"] * (seen - 1), each["max_gain"]), rel=1e-3)
            assert each["fixed_step_ms"] == pytest.approx(each["step_ms"] / each["gain"])
            assert 1 <= each["gain_low"] <= each["gain"]
            assert each["basis"].startswith("measured") == each["measured"]
        for each in found["trials"]:
            seen_ms = (
                min(1e3 * each["usual_s"] * each["times"], each["phases_ms"]) if each["times"] else each["phases_ms"]
            )
            saved = max(0.0, 1 - each["changed_s"] / each["as_it_is_s"]) if not each["error"] else 0.0
            assert each["gain"] == pytest.approx(each["step_ms"] / (each["step_ms"] - saved * seen_ms))
        return found

    return measure


def test_every_foreign_script_is_tried() -> None:
    assert {path.stem for path in FOREIGN.glob("*.py")} == SAMPLES_IN_A_STEP.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES_IN_A_STEP)
def test_a_foreign_script(name: str, measured: Callable[..., Found]) -> None:
    found = measured(0.6, SAMPLES_IN_A_STEP[name], FOREIGN / f"{name}.py", "1e-2")
    computes = ["forward", "backward", *["optimizer"] * (name != "by_hand")]
    for steps in (found["steps"], found["headroom"]):
        assert all(steps["phases_s"][phase] > 0 for phase in computes)
    trains = [phase for phase in PHASES if phase != "validation"]
    assert max(trains, key=found["steps"]["phases_s"].__getitem__) == "data wait"
    assert max(trains, key=found["headroom"]["phases_s"].__getitem__) != "data wait"
    assert found["headroom"]["samples_per_s"] > found["steps"]["samples_per_s"]


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


@pytest.mark.slow
@pytest.mark.parametrize(("how", "processes"), [("spawn", 1), ("spawn", 2), ("fork", 1), ("fork", 2)])
def test_a_training_in_processes_that_the_script_starts(
    how: str, processes: int, measured: Callable[..., Found], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(IN_OTHER_PROCESSES)
    found = measured(0.5, 8, "--no-headroom", "mine.py", how, str(processes))
    assert len(found["ranks"]) == (processes if processes > 1 else 0)
    assert "slow-rank" not in {each["cause"] for each in found["findings"]}, "they never wait for each other"


@pytest.mark.slow
def test_a_step_that_is_waited_for_is_followed_by_what_was_seen(workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import time, torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\ntime.sleep(33)")
    done = workshop("-v", "measure", "mine.py")
    assert done.returncode == 2
    assert "no end of a step yet; so far batches 0, forward 1, backward 0, optimizer 0" in done.stderr
    assert "1 forward pass, no backward pass" in done.stderr.splitlines()[-1]
    assert "the hooks into the training are in place" in done.stderr, "the log"


@pytest.mark.slow
def test_the_untouched_script(
    measured: Callable[..., Found], project: Path, data: Path, write_config: Callable[..., Path]
) -> None:
    """It ends before its steps from memory can be measured, and is started again for them."""
    config = write_config(batch_size=4, max_items=32, max_epochs=2, image_size=64, wasted_time=0.1)
    found = measured(14, 4, project / "train.py", config, "--data", data, "--device", "cpu")
    assert 10 <= found["steps"]["count"] <= 13, "all but those that warmed up"
    assert found["headroom"]
    assert max(PHASES, key=found["steps"]["phases_s"].__getitem__) == "data wait"


@pytest.mark.parametrize(
    ("script", "exit_code", "says"),
    [
        ("print('no training here')", 2, "mine.py ended before a training step was seen: no process has loaded torch"),
        ("raise RuntimeError('too bad')", 5, "RuntimeError: too bad"),
    ],
)
def test_what_cannot_be_measured(script: str, exit_code: int, says: str, workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(script)
    (tmp_path / "before.json").write_text("an earlier measurement")
    done = workshop("measure", "--save", "before.json", "mine.py")
    assert done.returncode == exit_code
    assert says in done.stdout + done.stderr
    assert "probe" not in done.stdout + done.stderr
    assert (tmp_path / "before.json").read_text() == "an earlier measurement"


COMMON = """
import dataclasses, time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 48
    def __getitem__(self, index):
        time.sleep(0.004)
        return {"x": torch.ones(8) * index, "labels": index % 3}

model = nn.Linear(8, 3)
loader = DataLoader(Slow(), 6)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

def step(x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


@pytest.fixture
def odd(measured: Callable[..., Found], tmp_path: Path) -> Callable[..., Found]:
    """What is found of a loop that is written in some way."""

    def measure(loop: str, samples_in_a_step: int | None = 6, seconds: float = 0.5, *options: str) -> Found:
        (tmp_path / "mine.py").write_text(COMMON + loop)
        return measured(seconds, samples_in_a_step, *options, "mine.py")

    return measure


@pytest.mark.slow
def test_the_lines_of_a_script_that_ends_and_is_started_again(odd: Callable[..., Found]) -> None:
    found = odd("for _ in range(4):\n    for batch in loader:\n        step(batch['x'], batch['labels'])", seconds=20.0)
    assert found["steps"]["count"] < 32, "it has ended before the measurement"
    assert [(each["cause"], each["function"]) for each in found["findings"]][:1] == [("slow-item", "__getitem__")]
    assert {each["phase"] for each in found["lines"]} >= {"data wait"}


@pytest.mark.slow
def test_an_optimizer_that_is_replaced_and_batches_that_are_taken_apart(odd: Callable[..., Found]) -> None:
    """Fine-tuning in two stages; the second one goes on for ever."""
    found = odd(
        """
for turn in range(1_000_000):
    for batch in loader:
        y = batch.pop("labels")
        step(batch["x"].mul_(255), y)
    if turn == 0:
        optimizer = torch.optim.Adam(model.parameters())
"""
    )
    assert found["headroom"]["samples_per_s"] > found["steps"]["samples_per_s"]
    assert of_script(found["notes"]) == []


@pytest.mark.slow
def test_many_steps_for_a_batch(odd: Callable[..., Found]) -> None:
    found = odd(
        """
while True:
    for batch in loader:
        for _ in range(50):
            time.sleep(0.002)
            step(batch["x"], batch["labels"])
""",
        None,
    )
    assert found["headroom"]["phases_s"]["data wait"] < 0.1 * found["steps"]["phases_s"]["data wait"]


@pytest.mark.slow
def test_what_a_loop_does_besides_is_said(odd: Callable[..., Found]) -> None:
    """Batches in a dataclass, made where gradients are off, as for validation; and a bug in the end."""
    found = odd(
        """
@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor

@torch.no_grad()
def batches():
    for batch in loader:
        yield Batch(batch["x"] / 48, batch["labels"])

for _ in range(6):
    for batch in batches():
        step(batch.x, batch.y)
raise KeyError("a bug in the end")
"""
    )
    assert found["headroom"] is None
    assert found["steps"]["phases_s"]["validation"] == 0
    assert any(note.startswith("No headroom: ") for note in found["notes"])


@pytest.mark.slow
def test_a_loop_without_a_data_loader_as_a_person_reads_it(workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        COMMON
        + """
for _ in range(1_000_000):
    optimizer.zero_grad()
    model(torch.randn(6, 8)).sum().backward()
    optimizer.step()
"""
    )
    done = workshop("measure", "--seconds", "0.3", tmp_path / "mine.py")
    assert done.returncode == 0, done.stderr
    assert "\nmine.py: " in done.stdout
    names = [line.split("  ")[0] for line in done.stdout.splitlines()]
    shown = [phase for phase in [*PHASES, "together"] if phase != "validation"]
    assert [name for name in names if name in shown] == shown
    assert "\nNo headroom: the training takes no batches from a DataLoader.\n" in done.stdout


@pytest.mark.parametrize("command", [["mine.py"], ["-m", "mine"]])
def test_the_script_sees_its_own_arguments_and_folder(command: list[str], workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os, sys\nprint(sys.argv, os.getcwd())\nsys.exit(9)")
    done = workshop("measure", "--json", *command, "--json", "-x", "a b")
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["outcome"]) == (5, "broken")
    assert f"['{tmp_path / 'mine.py'}', '--json', '-x', 'a b'] {tmp_path}" in verdict["output"]


SLEEP = "        time.sleep(0.004)"

EPOCHS = """
while True:
    for batch in loader:
        step(batch["x"], batch["labels"])
"""


@pytest.mark.slow
def test_the_line_the_cause_and_the_gain(workshop: Run, tmp_path: Path, browser: "Browser") -> None:
    """As a person reads them, as a page, and once more after the line was fixed."""
    script = tmp_path / "mine.py"
    script.write_text(COMMON + EPOCHS)
    line = script.read_text().splitlines().index(SLEEP) + 1
    before = tmp_path / "before.json"
    done = workshop("measure", "--seconds", "1", "--html", "page.html", "--save", before, "mine.py")
    assert done.returncode == 0, done.stderr
    assert f"1. slow-item  mine.py:{line}, in __getitem__\n       time.sleep(0.004)\n" in done.stdout

    found = json.loads(before.read_text())["findings"][0]
    assert (found["cause"], found["line"], found["function"]) == ("slow-item", line, "__getitem__")
    assert found["words"].endswith(" See part 5.")
    assert (found["phase"], found["process"], found["file"]) == ("data wait", "training", str(script))
    assert 0.9 * 6 * 4 < found["ms_a_step"] < 100, "six items sleep for 4 ms each"
    assert found["gain"] > 5

    with visited(browser, tmp_path / "page.html") as page:
        assert page.locator("#findings li").first.inner_text().removeprefix("about ").startswith(found["speedup"])
        duration_ms, *rest = page.locator("tr.found").first.inner_text().split()
        assert float(duration_ms) == pytest.approx(found["ms_a_step"], rel=0.02), "both are rounded"
        assert rest == [str(line), SLEEP.strip()]
        assert page.locator("svg rect").count() == json.loads(before.read_text())["steps"]["count"]

    script.write_text(script.read_text().replace("0.004", "0.001"))
    done = workshop("measure", "--seconds", "1", "--no-headroom", "--diff", before, "mine.py")
    assert done.returncode == 0, done.stderr
    changed = [line.split() for line in done.stdout.splitlines() if line.rstrip().endswith("  less")]
    assert [words[0] for words in changed[:2]] == ["a", "data"], "the step, and its data wait"
    assert any("__getitem__:" in words for words in changed)


@pytest.mark.slow
def test_ctrl_c_shows_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(COMMON + EPOCHS)
    with started(tmp_path, "-m", "workshop", "measure", "--seconds", "60", "mine.py") as process:
        assert process.stderr
        assert any(line.startswith("measuring its steps") for line in iter(process.stderr.readline, ""))
        time.sleep(1)
        press_ctrl_c(process)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "1. slow-item  mine.py:" in said
    assert "Stopped by Ctrl-C: this is what was seen until then" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loop", "cause", "text"),
    [
        ("time.sleep(0.02)\n", "own-work", "time.sleep(0.02)"),
        ("if number % 5 == 0:\n            time.sleep(0.2)\n", "periodic-work", "time.sleep(0.2)"),
        ("seen.append(y); sum(len(y) for _ in range(2000) for y in seen)\n", "growing-steps", "seen.append(y)"),
        (
            "with torch.no_grad():\n            for _ in range(300): model.eval()(x)\n        model.train()",
            "periodic-work",
            "model.eval",
        ),
    ],
)
def test_what_a_loop_does_besides(loop: str, cause: str, text: str, odd: Callable[..., Found], tmp_path: Path) -> None:
    found = odd(
        "seen = []\nx, y = torch.ones(6, 8), torch.zeros(6, dtype=torch.long)\n"
        f"for number in range(100_000):\n    step(x, y)\n    if True:\n        {loop}\n",
        6,
        6,  # so many steps that a busy moment does not hide that they grow
        "--no-headroom",
    )
    first = found["findings"][0]
    assert first["cause"] == cause
    assert text in (tmp_path / "mine.py").read_text().splitlines()[first["line"] - 1]


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clears", "mode", "tries"),
    [("set_to_none=False", "no_grad", {"set-to-none", "inference-mode"}), ("", "inference_mode", set())],
)
def test_what_is_tried_depends_on_what_the_script_says(
    clears: str, mode: str, tries: set[str], measured: Callable[..., Found], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(VALIDATED.format(clears=clears, mode=mode))
    found = measured(2, None, "mine.py")
    tried = {each["name"]: each for each in found["trials"]}
    assert tried.keys() & {"set-to-none", "inference-mode"} == tries
    assert {(tried[each]["error"], tried[each]["results"]) for each in tries} <= {("", "same results")}
    if tries:
        assert tried["inference-mode"]["times"] == pytest.approx(2, rel=0.3), "20 batches once in 10 steps"
    for each in found["findings"]:
        if each["cause"] == "set-to-none":
            assert "zero_grad" in (tmp_path / "mine.py").read_text().splitlines()[each["line"] - 1]


ROLLOUTS = """
class Environment:
    def step(self, action):
        time.sleep(0.002)
        return torch.randn(1, 8)

env = Environment()
for episode in range(100_000):
    losses, state = [], torch.randn(1, 8)
    for _ in range(2 + episode // 4):
        scores = model(state)
        state = env.step(scores.argmax())
        losses.append(scores.sum())
    optimizer.zero_grad()
    sum(losses).backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_episodes_that_go_on_for_longer(odd: Callable[..., Found], tmp_path: Path) -> None:
    found = odd(ROLLOUTS, None, 0.5, "--no-headroom")
    assert {each["cause"] for each in found["findings"]} == {"own-work"}, "and not growing-steps"
    assert found["findings"][0]["words"].startswith("This makes what the model learns from")


@pytest.mark.slow
def test_what_torch_compile_has_written_is_nobodys_line(odd: Callable[..., Found], tmp_path: Path) -> None:
    """Wherever it lies, and though it takes most of the time."""
    (tmp_path / "cache").mkdir()
    found = odd(
        f"import os\nos.environ['TORCHINDUCTOR_CACHE_DIR'] = {str(tmp_path / 'cache')!r}\n"
        "model = torch.compile(nn.Sequential(nn.Linear(8, 2000), nn.GELU(), nn.Linear(2000, 3)))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)\n"
        "x, y = torch.ones(600, 8), torch.zeros(600, dtype=torch.long)\n"
        "for _ in range(100_000):\n    step(x, y)\n",
        600,
        0.5,
        "--no-headroom",
    )
    assert found["lines"]
    assert {Path(each["file"]).name for each in found["lines"]} == {"mine.py"}


NOTE = "Batches are loaded in another thread: the wait for them is under other."


def steps(*phases_s: float) -> MeasuredSteps:
    return MeasuredSteps(10, sum(phases_s), dict(zip(map(str, Phase), phases_s, strict=True)), 80)


AS_IT_IS = steps(8.0, 0.1, 0.9, 0.5, 0.3, 0.1, 0.1)


@pytest.mark.parametrize(
    ("synchronized", "headroom", "says"),
    [
        (None, None, NOTE),
        (None, steps(0.0, 0.1, 0.8, 0.5, 0.3, 0.1, 0.1), "None of the known causes was found. The largest"),
        (steps(7.6, 0.5, 0.9, 0.5, 0.3, 0.1, 0.1), None, "Phases: with a wait for the GPU after each of them."),
    ],
)
def test_the_table_fits_a_terminal(
    synchronized: MeasuredSteps | None, headroom: MeasuredSteps | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Measurement(AS_IT_IS, synchronized, headroom, (NOTE,), Circumstances(), Observations())
    print_diagnosis("mine.py", diagnose(found))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == "mine.py: 10 steps of 1000.0 ms, 8.0 samples/s"
    assert [line.split("  ")[0] for line in lines[4:12]] == [*Phase, "together"]
    assert max(map(len, lines[:12])) <= 80
    assert any(line.startswith(says) for line in lines[12:])
