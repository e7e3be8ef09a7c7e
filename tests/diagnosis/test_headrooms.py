"""What bounds a step, by made-up figures; real ones are measured in probe/test_operator_meter.py."""

from dataclasses import replace
from typing import Any

import pytest
from made_measurements import made_steps

from workshop.cli.measurement_text import print_diagnosis
from workshop.diagnosis.diagnosis import diagnose
from workshop.diagnosis.headrooms import Headrooms
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations
from workshop.pages.measurement_page import page
from workshop.probe.cause import Half
from workshop.probe.observations import OperatorWork
from workshop.probe.phases import Phase

WORK = OperatorWork(
    *(0.0, 1, 1),
    seconds=0.04,
    step_s=0.1,
    calls=5400,
    operations=2e9,
    bytes=4e8,
    dtype="float32",
    products={"float32": 1e11},
    copied=4e10,
)
STEPS = made_steps({Phase.FORWARD: 60.0, Phase.BACKWARD: 40.0})


def measured(*, waits_ms: float = 0.0, from_memory: bool = False, **changed: Any) -> Measurement:
    """Steps that compute for 100 ms, and wait for data before that."""
    phases_ms = {Phase.DATA_WAIT: waits_ms, Phase.FORWARD: 60.0, Phase.BACKWARD: 40.0}
    work = replace(WORK, **changed)
    return Measurement(
        made_steps(phases_ms), headroom=STEPS if from_memory else None, observations=Observations(operators=work)
    )


def test_each_headroom_leaves_out_one_part() -> None:
    known = Headrooms(measured(waits_ms=100.0, from_memory=True)).known
    assert {half: pytest.approx(each.left_ms) for half, each in known.items()} == {
        Half.DATA: 100.0,
        Half.LAUNCHES: 140.0,
        Half.ARITHMETIC: 180.0,
    }
    assert known[Half.DATA].gain == pytest.approx(2.0)
    assert Headrooms(measured(seconds=0.0)).known == {}
    assert Headrooms(Measurement(STEPS)).says == ""


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (measured(), "Launch-bound: operators compute for 40.0 of 100.0 ms, in 5400 calls; the rest is Python and "),
        (measured(waits_ms=150.0), "Waits for data for 150.0 of 250.0 ms."),
        (
            measured(waits_ms=150.0, from_memory=True),
            "Waits for data: with batches from memory, a step takes 100.0 of 250.0 ms.",
        ),
        (
            measured(seconds=0.08, bytes=4e7),
            "Bound by arithmetic: operators compute for 80.0 of 100.0 ms, at 25% of what this machine can do in "
            "float32 (MFU 20%: 2 GFLOP a step by torch's flop counter).",
        ),
        (
            measured(seconds=0.08, operations=2e6, bytes=1.6e9),
            "Bound by memory: operators compute for 80.0 of 100.0 ms; 1.6 GB are moved, 50% of what a copy moves in "
            "that time.",
        ),
        (measured(seconds=0.08, bytes=0.0, operations=0.0), "Bound by arithmetic: operators compute for 80.0 of 100"),
    ],
)
def test_what_bounds_a_step_is_said(of: Measurement, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = diagnose(of)
    assert found.as_dict()["headrooms"]["says"].startswith(says)
    print_diagnosis("mine.py", found)
    assert says in " ".join(capsys.readouterr().out.split())
    assert says.partition("'")[0] in page("mine.py", found.as_dict(), {})


def test_python_between_the_phases_is_no_launch() -> None:
    steps = made_steps({Phase.FORWARD: 30.0, Phase.BACKWARD: 10.0, Phase.OTHER: 60.0})
    assert Headrooms(replace(measured(seconds=0.01), steps=steps)).says.startswith("Python-bound: ")


def test_work_of_a_few_steps_is_no_python() -> None:
    """Nine steps of 20 ms, of which operators compute for 15, and one of 820."""
    durations_s = (*(0.02,) * 9, 0.82)
    steps = made_steps({Phase.FORWARD: 20.0, Phase.OTHER: 80.0}, durations_s=durations_s)
    found = Headrooms(replace(measured(seconds=0.015, step_s=0.02), steps=steps))
    assert (
        found.says
        == "Bound by what a few steps do: half of the steps take no more than 20.0 ms, on average it is 100.0."
    )
    assert found.operators_ms == pytest.approx(15.0)
    assert found.known[Half.LAUNCHES].left_ms == pytest.approx(15.0), "what they do may be Python"


def test_what_other_programs_do_to_profiled_steps_is_left_out() -> None:
    """Steps took twice as long under the profiler: so did the operators."""
    assert Headrooms(measured(seconds=0.08, step_s=0.2)).operators_ms == pytest.approx(40.0)
    assert Headrooms(measured(seconds=0.08, step_s=0.09)).operators_ms == pytest.approx(80.0)


def test_a_validation_is_no_calling() -> None:
    steps = made_steps({Phase.FORWARD: 60.0, Phase.BACKWARD: 40.0, Phase.VALIDATION: 100.0})
    assert Headrooms(replace(measured(), steps=steps)).operators_ms == pytest.approx(140.0)
