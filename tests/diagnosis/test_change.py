"""What has changed between two measurements, and what is noise."""

import json
from pathlib import Path
from typing import Any

import pytest

from workshop.diagnosis.change import changes, read_saved_times
from workshop.errors import WorkshopError
from workshop.probe.phases import Phase

Values = dict[str, Any]


def measured(data_wait: float, *lines: tuple[str, float]) -> Values:
    """A measurement of ten blocks of steps whose data wait scatters by 1 ms."""
    blocks = [
        dict.fromkeys(map(str, Phase), 0.0) | {"data wait": data_wait + (-1) ** number, "forward": 10.0}
        for number in range(10)
    ]
    of_lines = [
        {"phase": "data wait", "file": "/a/t.py", "function": "load", "text": text, "ms_a_step": ms, "samples": 400}
        for text, ms in lines
    ]
    phases_s = {phase: sum(block[phase] for block in blocks) / 1e3 for phase in blocks[0]}
    steps = {"blocks_ms": blocks, "count": 10, "wall_s": sum(phases_s.values()), "phases_s": phases_s}
    return {"steps": steps, "synchronized": None, "lines": of_lines}


def test_the_step_its_phases_and_its_lines() -> None:
    before, after = measured(20.0, ("sleep()", 15.0), ("decode()", 5.0)), measured(5.0, ("decode()", 5.2))
    found = changes(before, after)
    assert [(each.name, round(each.before, 6), round(each.after, 6), each.more_than_noise) for each in found] == [
        ("a step", 30.0, 15.0, True),
        ("data wait", 20.0, 5.0, True),
        ("forward", 10.0, 10.0, False),
        ("data wait, t.py, load: sleep()", 15.0, 0.0, True),
    ]


def test_the_figures_are_those_that_measure_has_printed() -> None:
    """A block may have more steps than another: the mean of the blocks is then not the mean of the steps."""
    before, after = measured(20.0), measured(5.0)
    before["steps"] |= {"count": 12, "wall_s": 0.312, "phases_s": before["steps"]["phases_s"] | {"data wait": 0.192}}
    step, data_wait, _ = changes(before, after)
    assert (step.before, data_wait.before) == (pytest.approx(26.0), pytest.approx(16.0))
    after["synchronized"] = after["steps"] | {"count": 20}
    step, data_wait, _ = changes(before, after)
    assert (step.after, data_wait.after) == (pytest.approx(15.0), pytest.approx(2.5)), "as its table has them"


def test_what_scatters_is_noise() -> None:
    assert not any(each.more_than_noise for each in changes(measured(20.0), measured(20.9)))
    before, after = measured(20.0), measured(5.0)
    del before["steps"]["blocks_ms"][1:]
    assert not changes(before, after)[0].more_than_noise, "nobody knows how far a single block is off"


@pytest.mark.parametrize("text", ["", "{}", "[1]", json.dumps({"steps": {"blocks_ms": []}, "lines": []})])
def test_a_file_that_is_no_measurement(text: str, tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text(text)
    with pytest.raises(WorkshopError, match=r"before\.json is no measurement that workshop measure --save has written"):
        read_saved_times(path)
    with pytest.raises(WorkshopError, match="there is no file"):
        read_saved_times(tmp_path / "none.json")
