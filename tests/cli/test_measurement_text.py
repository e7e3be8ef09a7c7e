"""A measurement as `workshop measure` prints it."""

import pytest

from workshop.cli.measurement_text import print_measurement
from workshop.diagnosis.measurement import MeasuredSteps, Measurement
from workshop.probe.phases import Phase

NOTE = "Batches are loaded in another thread: the wait for them is under other."


def steps(*phases_s: float) -> MeasuredSteps:
    return MeasuredSteps(10, sum(phases_s), dict(zip(map(str, Phase), phases_s, strict=True)), 80)


AS_IT_IS = steps(8.0, 0.1, 0.9, 0.5, 0.3, 0.2)


@pytest.mark.parametrize(
    ("synchronized", "headroom", "says"),
    [
        (None, None, NOTE),
        (None, steps(0.0, 0.1, 0.8, 0.5, 0.3, 0.2), "Headroom: 42.1 samples/s with batches from memory, 5.26 times as"),
        (None, steps(7.5, 0.1, 0.9, 0.5, 0.3, 0.2), "The data are not what holds this script up."),
        (None, steps(0.0, 0.1, 3.6, 2.0, 1.2, 0.2), "The computing itself took 4.0 times as long in one of the two"),
        (steps(7.6, 0.5, 0.9, 0.5, 0.3, 0.2), None, "Phases: with a wait for the GPU after each of them."),
    ],
)
def test_the_table_fits_a_terminal_and_says_what_could_be_gained(
    synchronized: MeasuredSteps | None, headroom: MeasuredSteps | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_measurement("mine.py", Measurement(AS_IT_IS, synchronized, headroom, (NOTE,)))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == "mine.py: 10 steps of 1000.0 ms, 8.0 samples/s"
    assert [line.split("  ")[0] for line in lines[4:11]] == [*Phase, "together"]
    assert max(map(len, lines[:11])) <= 80
    assert any(line.startswith(says) for line in lines[11:])
