"""A finding: its potential speedup can be computed again from the figures that stand beside it."""

import pytest
from made_measurements import made_steps

from workshop.cli.measurement_text import print_diagnosis
from workshop.diagnosis.causes.data_wait import FEW_WORKERS
from workshop.diagnosis.causes.other_work import OWN_WORK
from workshop.diagnosis.diagnosis import Diagnosis
from workshop.diagnosis.findings import Finding, finding, within_phase
from workshop.diagnosis.measurement import Measurement
from workshop.pages.measurement_page import page
from workshop.probe.phases import Phase
from workshop.runs.other_load import OtherLoad


def slow(max_gain: float = 1000.0) -> Finding:
    return finding(OWN_WORK, "Do it cheaper.", gain=2.5, ms_a_step=43.0, share=0.43, max_gain=max_gain)


def test_the_figures_beside_a_potential_speedup_lead_to_it() -> None:
    assert slow().basis == (
        "estimated from its time: 100.0 ms without 60.0 ms are 40.0 ms, 2.50x; "
        "25% more gain for what follows from it, 2.88x; 1.43x if half of it is saved"
    )
    assert (slow().speedup, slow().fixed) == ("1.4x to 2.9x", "34.8 to 70.0 ms")
    assert slow().gain == pytest.approx(1 + 1.25 * 1.5)
    assert slow().fixed_step_ms == pytest.approx(100 / 2.875)
    values = {"gain": 2.0, "ms_a_step": 50.0, "share": 0.5, "measured": True}
    assert finding(FEW_WORKERS, "", **values).basis == "measured"
    assert finding(FEW_WORKERS, "", **values, margin=1.05).basis == (
        "measured: 100.0 ms without 50.0 ms are 50.0 ms, 2.00x; 5% more gain for what follows from it, 2.05x"
    )
    assert finding(FEW_WORKERS, "", **values).speedup == "2.0x"
    assert finding(FEW_WORKERS, "", gain=1.0, ms_a_step=0.0, share=0.0, measured=True).gain == 1.0
    limited = "2.88x; 1.43x if half of it is saved; limited to 2.00x, the most that can be gained there"
    assert slow(max_gain=2.0).basis.endswith(limited)


def test_no_gain_that_is_estimated_is_above_that_of_its_phase() -> None:
    values = {"gain": 2.5, "ms_a_step": 43.0, "share": 0.43, "phase": Phase.OTHER}
    for measured, share, gain in ((False, 0.2, 1 + 1.25 * 0.25), (False, 0.7, 2.875), (True, 0.2, 2.5)):
        each = within_phase(finding(OWN_WORK, "", **values, measured=measured), share)
        assert each.gain == pytest.approx(gain)
        assert each.gain_low <= each.gain <= each.max_gain


@pytest.mark.parametrize(("other_cores", "rough"), [(1.5, "about "), (0.0, "")])
def test_on_a_busy_machine_what_is_derived_is_rough(
    other_cores: float, rough: str, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = made_steps({Phase.OTHER: 100.0})
    found = Diagnosis(Measurement(steps, machine=OtherLoad(2, other_cores)), [slow()], [])
    print_diagnosis("mine.py", found)
    durations = f"step of 100.0 ms would take {rough}34.8 to 70.0 ms ("
    assert f"Potential speedup: {rough}1.4x to 2.9x, a {durations}" in " ".join(capsys.readouterr().out.split())
    written = page("mine.py", found.as_dict(), {})
    assert f"{rough}1.4x to 2.9x" in written
    assert durations in written
