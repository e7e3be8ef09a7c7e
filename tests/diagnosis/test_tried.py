"""What a trial means for a step, by made-up figures; real ones are tried in probe/test_closer_look.py."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_measurements import made_steps

from workshop.cli.measurement_text import print_diagnosis
from workshop.diagnosis.diagnosis import diagnose
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations
from workshop.diagnosis.stages import _untold
from workshop.diagnosis.tried import NewResults, is_faster, tried_changes
from workshop.pages.measurement_page import page
from workshop.probe.observations import SettingMade, Trial
from workshop.probe.phases import Phase
from workshop.probe.trials import tried_causes
from workshop.runs.other_load import OtherLoad

STEPS = made_steps({Phase.FORWARD: 20.0, Phase.BACKWARD: 40.0, Phase.OPTIMIZER: 40.0})
FUSED = Trial(
    *(0.0, 1, 1),
    name="fused-optimizer",
    as_it_is_s=0.04,
    changed_s=0.01,
    usual_s=0.04,
    about="Adam",
    difference=1e-7,
    rounds=((0.04, 0.01), (0.041, 0.01), (0.04, 0.011), (0.042, 0.01)),
)


def tried(*trials: Trial, busy: bool = False) -> Measurement:
    machine = OtherLoad(2, 1.5 if busy else 0.0)
    return Measurement(STEPS, observations=Observations(raced=list(trials)), machine=machine)


def test_the_gain_of_a_step_follows_from_the_seconds_of_a_pass() -> None:
    (fused,) = tried_changes(tried(FUSED))
    assert (fused.saved_ms, fused.gain) == (pytest.approx(30.0), pytest.approx(100 / 70))
    (slower,) = tried_changes(tried(replace(FUSED, changed_s=0.05)))
    assert (slower.saved_ms, slower.gain, slower.has_effect) == (0.0, 1.0, False)
    (twice,) = tried_changes(tried(replace(FUSED, times=2.0)))
    assert twice.saved_ms == pytest.approx(30.0), "no more than the phase has"
    (rarely,) = tried_changes(tried(replace(FUSED, times=0.5)))
    assert rarely.saved_ms == pytest.approx(15.0)


BY_CHANCE = ((0.04, 0.038), (0.041, 0.033), (0.05, 0.039), (0.039, 0.034), (0.043, 0.03), (0.04, 0.058))
"""Five of six rounds are won, and the shortest pass is 1.3 times as fast, as equal passes may be in one of nine."""


def test_what_may_be_noise_has_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    may_be = replace(FUSED, as_it_is_s=0.039, changed_s=0.03, rounds=BY_CHANCE)
    (change,) = tried_changes(tried(may_be))
    assert (change.faster, change.sure, change.has_effect) == (pytest.approx(5 / 6), False, False)
    for busy, says in (
        (False, "Tried without effect: fused-optimizer (1.10x, which may be noise)."),
        (True, "may come from other programs: fused-optimizer (1.1x)."),
    ):
        found = diagnose(tried(may_be, busy=busy))
        assert found.findings == []
        print_diagnosis("mine.py", found)
        assert says in " ".join(capsys.readouterr().out.split())
    assert not tried_changes(tried(replace(FUSED, rounds=FUSED.rounds[:1])))[0].sure, "a single round tells nothing"
    many = [replace(FUSED, about=str(number), rounds=((4.0, 3.7), (4.0, 3.75), (4.0, 3.68))) for number in range(20)]
    assert tried_changes(tried(many[0]))[0].sure != tried_changes(tried(*many))[0].sure, "one of many is by chance"


def test_passes_that_are_equal_are_seldom_called_faster() -> None:
    """In a trial of slow passes, on a machine where one in ten takes twice as long."""
    dice = np.random.default_rng(0)
    seconds = dice.lognormal(sigma=0.05, size=(500, 6, 2)) * np.where(dice.random((500, 6, 2)) < 0.1, 2.0, 1.0)
    trials = [replace(FUSED, rounds=tuple(map(tuple, each.tolist()))) for each in seconds]
    assert sum(is_faster(tried(each), each) for each in trials) <= 0.05 * len(trials)
    faster = [replace(each, rounds=tuple((before, after / 1.5) for before, after in each.rounds)) for each in trials]
    assert sum(is_faster(tried(each), each) for each in faster) > 0.5 * len(trials)


def test_beside_other_programs_a_pass_is_compared_with_the_steps_that_they_disturbed_least() -> None:
    """What was tried in a quiet moment is little beside steps that were disturbed: that does not make it useless."""
    small = replace(FUSED, name="small-modules", about="Net", as_it_is_s=0.004, changed_s=0.001, usual_s=0.004)
    disturbed = replace(STEPS, durations_s=(0.008, 0.009, *(0.1,) * 8))
    for busy, causes in ((True, ["tiny-operators"]), (False, [])):
        found = diagnose(replace(tried(small, busy=busy), steps=disturbed))
        assert [each.cause for each in found.findings] == causes
    (change,) = tried_changes(replace(tried(small, busy=True), steps=disturbed))
    assert (change.undisturbed_ms, change.has_effect) == (pytest.approx(9.0), True)
    assert change.gain == pytest.approx(100 / 97), "what is stated as the least is that of all steps"


SPARSE = replace(FUSED, name="dense-embedding", about="9 x 9; Adam", setting="SparseAdam")


@pytest.mark.parametrize(
    ("trial", "kind", "says"),
    [
        (replace(FUSED, difference=0.0), NewResults.SAME, "The results are the same."),
        (replace(FUSED, difference=8e-18), NewResults.ROUNDED, "The results differ only in how they are rounded, by"),
        (replace(FUSED, difference=1.0), NewResults.DIFFERENT, "The results differ by up to 100% of the largest value"),
        (replace(FUSED, difference=None), NewResults.UNKNOWN, ""),
        (replace(FUSED, draws=True), NewResults.RANDOM, "Whether the results are the same could not be seen"),
        (replace(FUSED, name="set-to-none"), NewResults.SAME, "The results are the same."),
        (SPARSE, NewResults.OTHER_MATH, "With SparseAdam, the results differ"),
        (replace(SPARSE, setting=""), NewResults.SAME, "The results are the same."),
    ],
)
def test_what_becomes_of_the_numbers(trial: Trial, kind: NewResults, says: str) -> None:
    (change,) = tried_changes(tried(trial))
    assert change.new_results is kind
    assert change.results.startswith(says)
    assert bool(change.results) == bool(says)


def test_of_many_modules_a_few_are_named() -> None:
    names = ", ".join(f"model.layers.{number}" for number in range(24))
    found = diagnose(tried(replace(FUSED, name="unused-gradients", about=names)))
    assert (
        "gradients of model.layers.0, model.layers.1, model.layers.2, model.layers.3 and 20 more that are cleared"
        in (found.findings[0].words)
    )


def test_of_trials_that_were_begun_and_came_to_nothing_that_is_said() -> None:
    none = Trial(*(0.0, 1, 1), name="channels-last", as_it_is_s=0.0, changed_s=0.0, applies=False)
    run: Any = SimpleNamespace(ended=True, error=None, interrupted=False)
    names = ["fused-optimizer", "channels-last", "torch-compile", "bfloat16"]
    says = _untold(run, [tried_causes()[name] for name in names], names[:-1], Observations(raced=[FUSED, none]))
    assert list(map(str, says)) == [
        "Not tried: bfloat16 (the script ended before).",
        "Could not be tried: torch-compile (the script ended before).",
        "Nothing to try for channels-last in this script.",
    ]


def test_what_brings_little_is_in_one_line_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    foreach = replace(FUSED, name="foreach-optimizer", changed_s=0.02)
    little = replace(FUSED, name="bfloat16", changed_s=0.039, about="Net")
    failed = replace(FUSED, name="torch-compile", error="ValueError: no", about="Net")
    none = replace(FUSED, name="channels-last", error="NothingToTryError: no", applies=False)
    found = diagnose(tried(FUSED, foreach, little, failed, none))
    assert [each.cause for each in found.findings] == ["fused-optimizer"], "one of two that exclude each other"
    assert found.findings[0].gain_low == pytest.approx(100 / 70)
    print_diagnosis("mine.py", found)
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.endswith("Tried without effect: bfloat16 (1.01x). Could not be tried: torch-compile (ValueError: no).")


def test_nothing_is_to_be_detached_where_gradients_lead_on() -> None:
    unused = replace(FUSED, name="unused-gradients", about="critic")
    for leads_on, advised in ((False, "detach what comes from there"), (True, "detach nothing")):
        (found,) = diagnose(tried(replace(unused, leads_on=leads_on))).findings
        assert found.cause == "unused-gradients"
        assert advised in found.words
        assert ("no_grad" in found.words) != leads_on


def test_other_threads_on_a_busy_machine_say_nothing() -> None:
    other = replace(FUSED, name="other-threads", about="Net", setting="4 threads")
    (found,) = diagnose(tried(other)).findings
    assert found.cause == "other-threads"
    assert "faster with 4 threads for each operator: torch.set_num_threads(4)." in found.words
    assert diagnose(tried(other, busy=True)).findings == []
    assert tried_changes(tried(other, busy=True))[0].is_undecided


def test_the_line_that_fills_gradients_with_zeros(tmp_path: Path) -> None:
    script = str(tmp_path / "mine.py")
    cleared = [
        SettingMade(0.0, 1, number, "zero_grad", values, (("main", script, number),))
        for number, values in enumerate([(), ("True",), ("False",)], start=1)
    ]
    zeroed = replace(FUSED, name="set-to-none", about="Net")
    measurement = tried(zeroed)
    (found,) = diagnose(replace(measurement, observations=replace(measurement.observations, settings=cleared))).findings
    assert (found.cause, found.file, found.line) == ("set-to-none", script, 3)
    assert "leave out set_to_none=False" in found.words


def test_inference_mode_saves_a_part_of_the_validation() -> None:
    inferring = replace(FUSED, name="inference-mode", as_it_is_s=0.004, changed_s=0.002, usual_s=0.004, times=5.0)
    steps = made_steps({Phase.FORWARD: 60.0, Phase.VALIDATION: 40.0})
    measurement = replace(tried(inferring), steps=steps)
    (change,) = tried_changes(measurement)
    assert (change.saved_ms, change.gain) == (pytest.approx(10.0), pytest.approx(100 / 90))
    assert [(each.cause, each.phase) for each in diagnose(measurement).findings] == [("inference-mode", "validation")]


def test_the_page_has_each_trial_with_its_result() -> None:
    values = diagnose(tried(FUSED, replace(FUSED, name="channels-last", about="Net", error="no memory"))).as_dict()
    shown = page("mine.py", values, {})
    assert "<td>fused-optimizer</td><td>Adam</td><td>1.43x</td><td></td>" in shown
    assert "<td>channels-last</td><td>Net</td><td></td><td>no memory</td>" in shown
