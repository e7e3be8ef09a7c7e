"""What is made of the reports of a script; real trainings are measured in cli/test_measured_trainings.py."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_script import STEPS, by_the_clock_of_the_script

from workshop.cli.measurement_text import print_diagnosis
from workshop.diagnosis.diagnosis import diagnose
from workshop.diagnosis.measurement import Measurement, NoteKind
from workshop.diagnosis.stages import measure
from workshop.errors import WorkshopError
from workshop.probe.phases import Phase
from workshop.runs.script_error import ScriptError

Measure = Callable[..., Measurement]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Measure a script with some lines after those of `fake_script.STEPS`."""
    monkeypatch.chdir(tmp_path)
    by_the_clock_of_the_script(monkeypatch)

    def run(text: str, seconds: float = 0.2, begins: str = "", **options: object) -> Measurement:
        (tmp_path / "mine.py").write_text(begins + STEPS + text)
        return measure("mine.py", [], seconds, lambda _: None, **options)  # type: ignore[arg-type]

    return run


def noted(found: Measurement) -> list[NoteKind]:
    """What is noted, but for the trials, of which these scripts know nothing."""
    return [each.kind for each in found.notes if each.kind is not NoteKind.NO_RESULT]


def test_the_same_steps_with_batches_from_memory(measured: Measure) -> None:
    found = measured("while True: step(data_wait=0.02, kept=1)")
    assert found.steps.samples == 4 * found.steps.count
    assert sum(found.steps.phases_s.values()) == pytest.approx(found.steps.wall_s)
    assert found.headroom
    assert found.headroom.phases_s[Phase.DATA_WAIT] == 0
    assert found.headroom.samples_per_s > found.steps.samples_per_s
    assert (found.synchronized, noted(found)) == (None, [])
    assert diagnose(found).as_dict()["steps"]["samples_per_s"] == found.steps.samples_per_s


def test_a_gpu_is_waited_for_in_a_stage_of_its_own(measured: Measure) -> None:
    found = measured("while True: step(device='cuda', kept=1)", headroom=False)
    assert found.synchronized
    assert found.table is found.synchronized
    assert found.headroom is None


@pytest.mark.parametrize(
    ("seconds", "phase", "cause"),
    [
        ("0.02", "other", "own-work"),
        ("0.2 if number % 5 == 0 else 0", "other", "periodic-work"),
        ("0.001 * number", "other", "growing-steps"),
        ("0.2 if number % 10 == 0 else 0", "validation", "periodic-work"),
    ],
)
def test_what_a_loop_does_besides(seconds: str, phase: str, cause: str, measured: Measure, tmp_path: Path) -> None:
    loop = f"""
def main():
    spends()
    learns()
for number in range(1_000_000):
    spent = {seconds}
    lines = [("spends()", "{phase}", spent), ("learns()", "forward", 0.005)]
    step(data_wait=0, {phase}=spent, lines=lines[not spent:], training=0)
"""
    found = diagnose(measured(loop, seconds=1.0))
    first = found.findings[0]
    assert (first.cause, first.phase) == (cause, phase)
    assert (tmp_path / "mine.py").read_text().splitlines()[first.line - 1] == "    spends()"
    assert {each.phase for each in found.lines} == {phase, Phase.FORWARD}


@pytest.mark.parametrize(("whole_s", "causes"), [(0.001, ["single-items"]), (0.019, [])])
def test_batches_of_single_samples_are_found_by_taking_whole_ones(
    whole_s: float, causes: list[str], measured: Measure, tmp_path: Path
) -> None:
    loop = f"""
made_loader(settings=LoaderSettings(2, persistent=True), singles=512)
if False:
    loader = DataLoader(numbers, 512, num_workers=2)
while True: step(data_wait=0.02, kept=1, loads=lambda settings: {whole_s} if settings.whole_batches else 0.02)
"""
    found = diagnose(measured(loop))
    assert [each.cause for each in found.findings] == causes
    for each in found.findings:
        assert (tmp_path / "mine.py").read_text().splitlines()[each.line - 1].lstrip().startswith("loader = DataLoader")
        assert (each.gain_low, each.gain) == (pytest.approx(25 / 6), pytest.approx(25 / 5))
    assert found.headroom


def test_a_script_that_ends_is_started_again_for_the_headroom(measured: Measure) -> None:
    found = measured("for _ in range(25): step(data_wait=0.02, kept=1)")
    assert found.steps.count < 25
    assert found.headroom
    assert noted(found) == [NoteKind.NOT_TRIED], "nothing on copies: it has ended again"


@pytest.mark.parametrize(
    ("loop", "kind"),
    [
        ("while True: step(elsewhere=1, kept=1)", NoteKind.LOADED_ELSEWHERE),
        ("while True: step(training=0)", NoteKind.NO_HEADROOM),
        ("for _ in range(9): step()\n1 / 0", NoteKind.NO_HEADROOM),
    ],
)
def test_what_the_figures_do_not_say(loop: str, kind: NoteKind, measured: Measure) -> None:
    assert noted(measured(loop)) == [kind]


@pytest.mark.parametrize(
    ("alone", "code", "says"),
    [
        ("sys.exit(3)", 3, "it crashes, too, with code 3"),
        ("sys.exit()", 0, "without a crash: the measurement may be to blame"),
        ("time.sleep(60)", None, "without a crash: the measurement may be to blame"),
    ],
)
def test_a_script_that_crashes_is_run_once_more_alone(
    alone: str, code: int | None, says: str, measured: Measure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begins = f"import os, sys, time\nif 'WORKSHOP_PROBE' not in os.environ: {alone}\n"
    found = measured("for _ in range(9): step()\n1 / 0", begins=begins)
    assert found.crash is not None
    assert found.crash.alone is not None
    assert (found.steps.count > 0, found.crash.exit_code, found.crash.alone.exit_code) == (True, 1, code)
    assert says in found.crash.words
    print_diagnosis("mine.py", diagnose(found))
    printed = capsys.readouterr().out
    assert printed.index("The script crashed while it was measured") < printed.index("together"), "on top"
    assert diagnose(found).as_dict()["crash"]["output"].endswith("ZeroDivisionError: division by zero")


def test_a_trial_that_comes_to_no_result_is_told(measured: Measure) -> None:
    """No batch of the workers comes, and of no other way to compute is anything noted."""
    found = measured("made_loader('while')\nwhile True: step(data_wait=0.02, kept=1)")
    assert not found.with_workers
    *of_workers, of_trials = found.notes
    assert of_workers
    assert {each.kind for each in (*of_workers, of_trials)} == {NoteKind.NO_RESULT}


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("", WorkshopError, "mine.py ended before a training step was seen: no process has loaded torch"),
        (
            "for _ in range(2): step()",
            WorkshopError,
            "ended after 2 steps, with which it only warmed up; let it train for 10",
        ),
        ("1 / 0", ScriptError, "it ended with code 1 after 0 steps"),
    ],
)
def test_what_cannot_be_measured(text: str, error: type[Exception], says: str, measured: Measure) -> None:
    with pytest.raises(error, match=says):
        measured(text)


def test_no_such_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkshopError, match=r"mine\.py is not a file; name a Python script"):
        measure("mine.py", [], 1.0)
