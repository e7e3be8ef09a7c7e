"""A finding: its potential speedup can be computed again from the figures that stand beside it."""

import pytest
from made_measurements import made_steps

from workshop.cli.measurement_text import print_diagnosis
from workshop.diagnosis.causes import without_what_is_measured
from workshop.diagnosis.causes.data_wait import FEW_WORKERS
from workshop.diagnosis.causes.other_work import OWN_WORK
from workshop.diagnosis.diagnosis import Diagnosis
from workshop.diagnosis.findings import Finding, finding, limited, within_phase
from workshop.diagnosis.measurement import Measurement
from workshop.pages.measurement_page import page
from workshop.probe.phases import Phase
from workshop.profiles.stacks import Frame
from workshop.runs.other_load import OtherLoad


def slow(max_gain: float = 1000.0) -> Finding:
    return finding(OWN_WORK, "Do it cheaper.", gain=2.5, ms_a_step=43.0, share=0.43, max_gain=max_gain)


def test_what_was_measured_in_a_line_takes_the_place_of_an_estimate() -> None:
    there, elsewhere = ((Frame("main", "mine.py", line),) for line in (7, 8))
    measured = finding(FEW_WORKERS, "", gain=1.4, measured=True, path=there, ms_a_step=30.0, share=0.3)
    half, more, other = (
        finding(OWN_WORK, "", gain=2.0, path=path, ms_a_step=100.0 * share, share=share)
        for path, share in ((there, 0.5), (there, 0.7), (elsewhere, 0.5))
    )
    assert without_what_is_measured([half, measured, more, other, slow()]) == [measured, more, other, slow()]


def test_the_figures_beside_a_potential_speedup_lead_to_it() -> None:
    assert slow().basis == (
        "estimated from its time: 100.0 ms without 60.0 ms are 40.0 ms, 2.50x; "
        "25% more gain for what follows from it, 2.88x"
    )
    assert (slow().speedup, slow().fixed) == ("up to 2.9x", "no less than 34.8 ms")
    assert slow().gain_low is None
    assert slow().gain == pytest.approx(1 + 1.25 * 1.5)
    assert slow().fixed_step_ms == pytest.approx(100 / 2.875)
    values = {"gain": 2.0, "ms_a_step": 50.0, "share": 0.5, "measured": True}
    assert finding(FEW_WORKERS, "", **values).basis == "measured"
    assert finding(FEW_WORKERS, "", **values).speedup == "2.0x"
    tried = finding(FEW_WORKERS, "", **values, low=1.5)
    assert (tried.speedup, tried.fixed) == ("1.5x to 2.0x", "50.0 to 66.7 ms"), "both ends were measured"
    assert finding(FEW_WORKERS, "", gain=1.0, ms_a_step=0.0, share=0.0, measured=True).gain == 1.0
    assert slow(max_gain=2.0).basis.endswith("2.88x; limited to 2.00x, the most that can be gained there")


def test_no_gain_that_is_estimated_is_above_that_of_its_phase() -> None:
    values = {"gain": 2.5, "ms_a_step": 43.0, "share": 0.43, "phase": Phase.OTHER}
    for measured, share, gain in ((False, 0.2, 1 + 1.25 * 0.25), (False, 0.7, 2.875), (True, 0.2, 2.5)):
        each = within_phase(finding(OWN_WORK, "", **values, measured=measured), share)
        assert each.gain == pytest.approx(gain)
        assert (each.gain_low is None) is not measured
        assert each.gain <= each.max_gain


def test_what_was_measured_is_not_limited() -> None:
    values = {"gain": 3.0, "ms_a_step": 50.0, "share": 0.5, "measured": True}
    assert limited(finding(OWN_WORK, "", **values), 2.0).gain == 3.0
    assert limited(finding(OWN_WORK, "", **values, low=1.5), 2.0).gain == 2.0
    assert limited(slow(), 2.0).gain == 2.0


@pytest.mark.parametrize(("other_cores", "rough"), [(1.5, "about "), (0.0, "")])
def test_on_a_busy_machine_what_was_measured_is_rough(
    other_cores: float, rough: str, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = made_steps({Phase.OTHER: 100.0})
    tried = finding(FEW_WORKERS, "", gain=2.0, ms_a_step=50.0, share=0.5, measured=True)
    found = Diagnosis(Measurement(steps, machine=OtherLoad(2, other_cores)), [slow(), tried], [])
    print_diagnosis("mine.py", found)
    shown, written = " ".join(capsys.readouterr().out.split()), page("mine.py", found.as_dict(), {})
    assert "Potential speedup: up to 2.9x, a step of 100.0 ms would take no less than 34.8 ms (" in shown
    assert f"Potential speedup: {rough}2.0x, a step of 100.0 ms would take {rough}50.0 ms (" in shown
    assert ">up to 2.9x" in written
    assert f"{rough}2.0x" in written
