"""What is remembered of the parts, what comes next, and how memory survives damage and later versions."""

import json
from pathlib import Path

import pytest

from workshop.course import progress
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.judge.verdict import HALF_DONE, Outcome, Speed, Verdict
from workshop.parts import SOLUTIONS, all_parts, find_part

UNTOUCHED = (SOLUTIONS / "part1.py").read_bytes()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(UNTOUCHED)
    return path


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path)


def end(state: State, name: str, outcome: Outcome, source: bytes) -> None:
    progress.remember(state, find_part(name), Verdict(name, outcome, ("",)), source)


def states(script: Path) -> dict[str, str]:
    return {each.part: each.state for each in progress.progress(State(script.parent), script)}


def test_a_solved_part_stays_solved_until_the_script_changes(script: Path) -> None:
    assert set(states(script).values()) == {"open"}
    for source, outcome, state_of_part3 in [
        (b"mine", Outcome.DONE, "done"),
        (b"mine", Outcome.UNDECIDED, "done"),
        (b"other", None, progress.EDITED),
        (b"other", Outcome.NOT_YET, progress.EDITED),
        (b"other", Outcome.DONE, "done"),
    ]:
        script.write_bytes(source)
        if outcome:
            end(State(script.parent), "part3", outcome, source)
        assert states(script)["part3"] == state_of_part3
    script.unlink()
    assert states(script)["part3"] == progress.EDITED
    end(State(script.parent), "part5", Outcome.OTHER_WORK, b"other")
    assert states(script)["part5"] == "not the same work"


def test_the_list_says_what_the_check_said(script: Path, state: State) -> None:
    verdict = Verdict("part10", Outcome.NOT_YET, ("",), answered=True)
    progress.remember(state, find_part("part10"), verdict, b"mine")
    assert (states(script)["part10"], verdict.state) == (HALF_DONE, HALF_DONE)


def test_the_best_speed_is_remembered(tmp_path: Path) -> None:
    state, part = State(tmp_path), find_part("part3")
    for ratio in (2.0, 3.0, 2.5):
        speed = Speed("", "", 1.0, ratio, ratio, ratio, ratio, 3, 1.5, {}, {}, None, None)
        progress.remember(state, part, Verdict("part3", Outcome.DONE, ("",), speed), b"")
    end(state, "part3", Outcome.BROKEN, b"")
    known = State(tmp_path).get("parts", "part3")
    assert (known["best_ratio"], known["done"], known["last"]) == (3.0, True, "broken")


def test_the_next_part_comes_after_the_one_that_was_checked_last(script: Path) -> None:
    state = State(script.parent)
    names = [part.name for part in all_parts()]
    assert progress.named_or_next(None, state).name == names[0]
    end(state, "part2", Outcome.DONE, b"")
    assert progress.next_part(state, after=find_part("part2")) == find_part("part3")
    assert progress.next_part(state) == find_part("part3")
    end(state, "part9", Outcome.NOT_YET, b"")
    state.put("2999-01-01T00:00:00", "parts", "part9", "at")
    assert progress.next_part(state) == find_part("part9")
    for name in names:
        end(state, name, Outcome.DONE, b"")
    assert progress.next_part(state) is None
    assert progress.named_or_next(None, state).name == names[-1]
    assert progress.named_or_next("2", state).name == "part2"


def test_a_solution_is_for_those_who_have_tried(state: State) -> None:
    part = find_part("part3")
    with pytest.raises(WorkshopError, match="run workshop check part3; or see the solution with --yes"):
        progress.solution(state, part, yes=False)
    end(state, "part3", Outcome.NOT_YET, UNTOUCHED)
    with pytest.raises(WorkshopError, match="try it first"):
        progress.solution(state, part, yes=False)  # to check the untouched script is no try
    assert progress.solution(state, part, yes=True) == part.solution
    end(state, "part3", Outcome.BROKEN, b"mine")
    assert progress.solution(state, part, yes=False) == part.solution
    with pytest.raises(WorkshopError, match="part2 asks a question"):
        progress.solution(state, find_part("part2"), yes=True)


def test_the_one_next_thing(script: Path, state: State) -> None:
    def told(folder: Path = script.parent) -> str:
        says, command = progress.next_step(State(folder), folder / "train.py")
        assert says[-1] in ".?"
        return command

    assert told(script.parent / "elsewhere") == "workshop start part1"
    assert told() == "workshop doctor"
    state.put("ready", "doctor")
    assert told() == "workshop show part1"
    state.put(True, "parts", "part1", "read")
    assert told() == "workshop check part1"
    end(state, "part1", Outcome.NOT_YET, UNTOUCHED)
    assert told() == "workshop hint part1"
    progress.next_hint(state, find_part("part1"))
    assert told() == "workshop check part1"
    end(state, "part1", Outcome.DONE, UNTOUCHED)
    assert told() == "workshop show part2"
    end(state, "part2", Outcome.UNDECIDED, UNTOUCHED)
    says, command = progress.next_step(state, script)
    assert says.endswith("Have it checked again, or go on with part3 meanwhile.")
    assert command == "workshop check part2"
    end(state, "part2", Outcome.DONE, UNTOUCHED)
    end(state, "part3", Outcome.UNDECIDED, b"mine")
    assert told() == "workshop restore", "the original is in its place"
    for part in all_parts():
        end(state, part.name, Outcome.DONE, UNTOUCHED)
    assert told() == "workshop measure YOUR_SCRIPT"


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
