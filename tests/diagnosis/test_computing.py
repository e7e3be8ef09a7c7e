"""A loop over small tensors, by made-up figures; cli/test_measured_trainings.py and the corpus have real ones."""

from pathlib import Path

import pytest
from made_measurements import made_steps

from workshop.diagnosis.causes.computing import computing_findings
from workshop.diagnosis.findings import Finding
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations
from workshop.probe.observations import BackwardPass, Trial
from workshop.probe.phases import Phase
from workshop.runs.other_load import OtherLoad

OPERATIONS, IN_LOOP = 969, 900
SMALL = Trial(0.0, 1, 1, name="tiny-operators", as_it_is_s=0.006, changed_s=0.001)
"""500 operators in 5 ms more than a few."""


def found(step_ms: float, other_cores: float, tmp_path: Path) -> list[Finding]:
    """What is found of a loop of 24 turns, in steps of so many milliseconds."""
    script = str(tmp_path / "mine.py")
    in_loop, outside = (("forward", script, 34),), (("forward", script, 40),)
    backward = BackwardPass(
        *(0.0, 1, 1),
        step=3,
        operations=OPERATIONS,
        parts=((0.01, IN_LOOP, in_loop), (0.001, OPERATIONS - IN_LOOP, outside)),
        loops=((script, 34, 24),),
    )
    steps = made_steps({Phase.FORWARD: 0.3 * step_ms, Phase.BACKWARD: 0.6 * step_ms, Phase.OPTIMIZER: 0.1 * step_ms})
    observations = Observations(raced=[SMALL], backward_passes=[backward])
    return computing_findings(Measurement(steps, observations=observations, machine=OtherLoad(2, other_cores)))


def test_small_operators_in_a_loop_are_found_beside_other_programs_as_without_them(tmp_path: Path) -> None:
    (quiet,) = found(25.0, 0.0, tmp_path)
    (busy,) = found(60.0, 1.2, tmp_path)
    assert (quiet.cause, busy.cause) == ("tiny-operators", "tiny-operators")
    assert quiet.share == pytest.approx(0.9 * 0.72 * IN_LOOP * 23 / 24 / OPERATIONS, rel=0.01)
    assert busy.gain == pytest.approx(quiet.gain)


def test_large_operators_are_not_taken_for_small_ones(tmp_path: Path) -> None:
    """What each call takes, however small it is, may still be saved."""
    (quiet,) = found(60.0, 0.0, tmp_path)
    assert quiet.share == pytest.approx(IN_LOOP * 23 / 24 * 0.01 / 60.0, rel=0.01)
