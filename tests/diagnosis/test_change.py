"""What has changed between two measurements, and what is noise."""

import json
from pathlib import Path
from typing import Any

import pytest

from workshop.diagnosis.change import changes, read_saved
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
    return {"steps": {"blocks_ms": blocks}, "lines": of_lines}


def test_the_step_its_phases_and_its_lines() -> None:
    before, after = measured(20.0, ("sleep()", 15.0), ("decode()", 5.0)), measured(5.0, ("decode()", 5.2))
    found = changes(before, after)
    assert [(each.name, each.before_ms, each.after_ms, each.more_than_noise) for each in found] == [
        ("a step", 30.0, 15.0, True),
        ("data wait", 20.0, 5.0, True),
        ("forward", 10.0, 10.0, False),
        ("data wait, t.py, load: sleep()", 15.0, 0.0, True),
    ]


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
        read_saved(path)
    with pytest.raises(WorkshopError, match="is no measurement"):
        read_saved(tmp_path / "none.json")
