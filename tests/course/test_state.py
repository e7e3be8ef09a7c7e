"""What is remembered survives damage, and later versions."""

import json
from pathlib import Path

import pytest

from workshop.course.state import State


@pytest.mark.parametrize("damage", ["", "{", "[]", "\x00"])
def test_damaged_state_is_set_aside(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    State(tmp_path).put(1, "a", "b")
    path = tmp_path / ".workshop" / "state.json"
    path.write_text(damage)
    state = State(tmp_path)
    assert state.get("a", "b") is None
    assert "was damaged" in capsys.readouterr().err
    [aside] = path.parent.glob("state-damaged-*.json")
    assert aside.read_text() == damage
    state.put(2, "a", "b")
    assert State(tmp_path).get("a", "b") == 2


def test_state_of_a_later_version_is_kept(tmp_path: Path) -> None:
    path = tmp_path / ".workshop" / "state.json"
    path.parent.mkdir()
    path.write_text('{"schema_version": 7, "new": {"x": 1}, "parts": {"part3": {"new": 2}}}')
    State(tmp_path).put("done", "parts", "part3", "last")
    assert json.loads(path.read_text())["new"] == {"x": 1}
    assert State(tmp_path).get("parts", "part3") == {"new": 2, "last": "done"}
