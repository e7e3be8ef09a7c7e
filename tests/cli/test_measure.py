"""`workshop measure` on scripts that know nothing of it."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from fake_script import STEPS, by_the_clock_of_the_script

from workshop.cli.measurement_text import print_diagnosis
from workshop.diagnosis.diagnosis import diagnose
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations
from workshop.probe.messages import Circumstances
from workshop.probe.phases import Phase
from workshop.runs.measured_steps import MeasuredSteps
from workshop.runs.other_load import OtherLoad, Program

PHASES = [str(phase) for phase in Phase]
pytestmark = pytest.mark.usefixtures("quick_trials")


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
        assert (each["gain_low"] is None) is not each["measured"]
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


@pytest.mark.parametrize(
    ("script", "exit_code", "says"),
    [
        ("print('no training here')", 2, "mine.py ended before a training step was seen: no process has loaded torch"),
        ("raise RuntimeError('too bad')", 5, "RuntimeError: too bad"),
    ],
)
@pytest.mark.parametrize("command", [["measure", "--save", "before.json"], ["tune"]])
def test_what_cannot_be_measured(
    command: list[str], script: str, exit_code: int, says: str, workshop: Run, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(script)
    (tmp_path / "before.json").write_text("an earlier measurement")
    done = workshop(*command, "mine.py")
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


NOTE = "Batches are loaded in another thread: the wait for them is under other."


def steps(*phases_s: float) -> MeasuredSteps:
    return MeasuredSteps(10, sum(phases_s), dict(zip(map(str, Phase), phases_s, strict=True)), 80)


WAITS, FROM_MEMORY = "Waits for data for ", "Waits for data: with batches from memory, a step takes 190.0 of 1000.0 ms."
AS_IT_IS = steps(8.0, 0.1, 0.9, 0.5, 0.3, 0.1, 0.1)


@pytest.mark.parametrize(
    ("synchronized", "headroom", "bound", "says"),
    [
        (None, None, WAITS, NOTE),
        (
            None,
            steps(0.0, 0.1, 0.8, 0.5, 0.3, 0.1, 0.1),
            FROM_MEMORY,
            "None of the known causes was found. The largest",
        ),
        (steps(7.6, 0.5, 0.9, 0.5, 0.3, 0.1, 0.1), None, WAITS, "Phases: with a wait for the GPU after each of them."),
    ],
)
def test_the_table_fits_a_terminal(
    synchronized: MeasuredSteps | None,
    headroom: MeasuredSteps | None,
    bound: str,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = Measurement(AS_IT_IS, synchronized, headroom, (NOTE,), Circumstances(), Observations())
    print_diagnosis("mine.py", diagnose(found))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == "mine.py: 10 steps of 1000.0 ms, 8.0 samples/s"
    assert lines[3].startswith(bound)
    assert [line.split("  ")[0] for line in lines[6:14]] == [*Phase, "together"]
    assert max(map(len, lines[:14])) <= 80
    assert any(line.startswith(says) for line in lines[14:])


@pytest.mark.parametrize(("other_cores", "hidden"), [(1.5, True), (0.0, False)])
def test_where_no_cause_is_found_beside_other_programs_they_may_hide_one(
    other_cores: float, hidden: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    print_diagnosis("mine.py", diagnose(Measurement(AS_IT_IS, machine=OtherLoad(2, other_cores))))
    shown = " ".join(capsys.readouterr().out.split())
    says = "None of the known causes was found. The largest phase is data wait, 80% of a step."
    assert f"{says}{' The load of other programs may hide causes.' * hidden}" in shown
    assert hidden == ("may hide causes" in shown)
