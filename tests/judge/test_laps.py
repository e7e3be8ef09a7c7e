"""What is told of the laps of a race."""

from workshop.judge.laps import under_one_name
from workshop.probe.phases import FORWARD_AND_VALIDATION, Phase


def test_a_validation_that_one_script_does_under_another_name_is_no_gain() -> None:
    as_it_came = {Phase.FORWARD: 1.17, Phase.BACKWARD: 0.5, Phase.VALIDATION: 0.0}
    without_gradients = {Phase.FORWARD: 0.5, Phase.BACKWARD: 0.5, Phase.VALIDATION: 0.25}
    before, after = under_one_name(as_it_came, without_gradients)
    assert before == {FORWARD_AND_VALIDATION: 1.17, Phase.BACKWARD: 0.5}
    assert after == {FORWARD_AND_VALIDATION: 0.75, Phase.BACKWARD: 0.5}
    both = (without_gradients, without_gradients)
    assert under_one_name(*both) == both
