"""`workshop measure` on scripts that know nothing of it."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import visited
from conftest import Once, Run
from fake_script import STEPS, by_the_clock_of_the_script

from workshop.cli.measurement_text import print_diagnosis
from workshop.diagnosis.diagnosis import diagnose
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations
from workshop.probe.messages import Circumstances
from workshop.probe.phases import Phase
from workshop.runs.measured_steps import MeasuredSteps
from workshop.runs.other_load import OtherLoad, Program

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOREIGN = Path(__file__).parents[1] / "foreign"
PHASES = [str(phase) for phase in Phase]
SAMPLES_IN_A_STEP = {"functional_loss": 8, "accumulation": 64, "several_models": 12, "iterable": 32, "by_hand": 8}
Found = dict[str, Any]


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the trials that take long, such as torch.compile."""
    if not request.node.get_closest_marker("acceptance"):
        monkeypatch.setattr("workshop.diagnosis.stages.MAX_DURATION_S", 0.0)


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


# On the clock of a made-up script, which decides nothing by the time of this machine


SLOW_ITEM = """
made_loader(settings=LoaderSettings())
if False:
    loader = DataLoader(items)
    item = read(index)
while True:
    step(data_wait={wait_s}, kept=1, lines=[("item =", "data wait", {wait_s}), ("loader =", "forward", 0.005)])
"""


@pytest.fixture
def made(workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Measure a script with some lines after those of `fake_script.STEPS`."""
    by_the_clock_of_the_script(monkeypatch)

    def measure(text: str, *options: str | Path) -> Any:
        (tmp_path / "mine.py").write_text(STEPS + text)
        return workshop("measure", "--seconds", "1", *options, "mine.py")

    return measure


def test_the_figures_lead_to_each_other(made: Run, tmp_path: Path) -> None:
    spends = 'step(other=0.02, kept=1, lines=[("item =", "other", 0.02), ("loader =", "forward", 0.015)])'
    done = made(SLOW_ITEM.partition("    step")[0] + f"    {spends}", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for steps in (found["steps"], found["headroom"]):
        assert sum(steps["phases_s"].values()) == pytest.approx(steps["wall_s"])
    step_ms = 1e3 * found["steps"]["wall_s"] / found["steps"]["count"]
    assert found["findings"][0]["cause"] == "own-work"
    for each in found["findings"]:
        assert each["step_ms"] == pytest.approx(step_ms)
        seen = each["step_ms"] / max(each["step_ms"] - each["saved_ms"], 1e-9)
        assert each["gain"] == pytest.approx(min(1 + each["margin"] * (seen - 1), each["max_gain"]))
        assert each["fixed_step_ms"] == pytest.approx(each["step_ms"] / each["gain"])
        assert 1 <= each["gain_low"] <= each["gain"]
        assert each["basis"].startswith("measured") == each["measured"]


def test_a_loop_without_a_data_loader_as_a_person_reads_it(made: Run) -> None:
    done = made("while True: step(data_wait=0, training=0)")
    assert done.returncode == 0, done.stderr
    assert "\nmine.py: " in done.stdout
    names = [line.split("  ")[0] for line in done.stdout.splitlines()]
    shown = [phase for phase in [*PHASES, "together"] if phase != "validation"]
    assert [name for name in names if name in shown] == shown
    assert "\nNo headroom: the training takes no batches from a DataLoader.\n" in done.stdout


def test_what_has_changed_since_a_saved_measurement(made: Run, tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    assert made(SLOW_ITEM.format(wait_s=0.02), "--save", before).returncode == 0
    done = made(SLOW_ITEM.format(wait_s=0.005), "--no-headroom", "--diff", before)
    assert done.returncode == 0, done.stderr
    changed = [line.split() for line in done.stdout.splitlines() if line.rstrip().endswith("  less")]
    assert [words[0] for words in changed[:2]] == ["a", "data"], "the step, and its data wait"
    assert any("main:" in words for words in changed)
    same = json.loads(made(SLOW_ITEM.format(wait_s=0.02), "--json", "--diff", before).stdout)["changes"]
    assert not [each for each in same if each["more_than_noise"]], same


def test_on_a_busy_machine_that_is_said_first(made: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = OtherLoad(2, 1.2, (Program("python elsewhere.py", 7, 99.0),))
    monkeypatch.setattr("workshop.runs.other_load.LoadMeter._measured", lambda _: load)
    printed = made(SLOW_ITEM.format(wait_s=0.02), "--save", "found.json", "--html", "page.html").stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["notes"][0] == str(load)
    assert found["machine"] == load.as_dict()
    assert str(load) in " ".join(printed.split())
    assert str(load) in (tmp_path / "page.html").read_text()


PRESSES = """
while True:
    lines = [("item =", "data wait", 0.02), ("loader =", "forward", 0.005)]
    step(data_wait=0.02, kept=1, lines=lines)
    if to == AsItIs() and now_s > began_s + 0.5:
        os.kill(os.getppid(), 2)
        time.sleep(60)
    began_s = now_s if to != AsItIs() else began_s
"""


def test_ctrl_c_shows_what_is_known(made: Run) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = made(SLOW_ITEM.partition("while")[0] + "began_s = now_s\n" + PRESSES)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.returncode == 0, done.stderr
    assert "  mine.py:" in done.stdout
    assert "Stopped by Ctrl-C: this is what was seen until then" in done.stdout


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
        ("worker-restarts", {"items": 400, "size": 50, "epochs": 500, "settings": "multiprocessing_context='spawn'"}),
        ("single-items", {"items": 60_000, "size": 2000, "epochs": 10_000, "settings": "persistent_workers=True"}),
    ],
)
def test_what_only_a_trial_of_the_loading_shows(
    cause: str, settings: dict[str, Any], measured: Callable[..., Found], tmp_path: Path
) -> None:
    """The first script is over in the stage with batches from memory, and is started again."""
    (tmp_path / "mine.py").write_text(IN_MEMORY.format(**settings))
    found = measured(6, settings["size"], "mine.py")
    first = found["findings"][0]
    assert (first["cause"], first["line"]) == (cause, 9)
    assert found["headroom"]
    assert found["whole_batches"] or cause != "single-items"  # the first script may end before they are tried


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


@pytest.mark.parametrize("command", [["mine.py"], ["-m", "mine"]])
def test_the_script_sees_its_own_arguments_and_folder(command: list[str], workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os, sys\nprint(sys.argv, os.getcwd())\nsys.exit(9)")
    done = workshop("measure", "--json", *command, "--json", "-x", "a b")
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["outcome"]) == (5, "broken")
    assert f"['{tmp_path / 'mine.py'}', '--json', '-x', 'a b'] {tmp_path}" in verdict["output"]


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

for _ in range(2):
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


@pytest.mark.parametrize(("other_cores", "hidden"), [(1.5, True), (0.0, False)])
def test_where_no_cause_is_found_beside_other_programs_they_may_hide_one(
    other_cores: float, hidden: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    print_diagnosis("mine.py", diagnose(Measurement(AS_IT_IS, machine=OtherLoad(2, other_cores))))
    shown = " ".join(capsys.readouterr().out.split())
    says = "None of the known causes was found. The largest phase is data wait, 80% of a step."
    assert f"{says}{' The load of other programs may hide causes.' * hidden}" in shown
    assert hidden == ("may hide causes" in shown)
