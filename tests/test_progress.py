"""What is remembered of the parts, and the commands that live on it."""

import json
from pathlib import Path

import pytest
from conftest import Run

from workshop import progress
from workshop.errors import WorkshopError
from workshop.harness.verdict import Outcome, Verdict
from workshop.parts import SOLUTIONS, all_parts, find_part
from workshop.state import State

UNTOUCHED = (SOLUTIONS / "part1.py").read_bytes()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(UNTOUCHED)
    return path


def end(state: State, name: str, outcome: Outcome, source: bytes) -> None:
    progress.remember(state, find_part(name), Verdict(name, outcome, ("",)), source)


def states(script: Path) -> dict[str, str]:
    return {each.part: each.state for each in progress.progress(State(script.parent), script)}


def test_a_solved_part_stays_solved_until_the_script_changes(script: Path) -> None:
    assert set(states(script).values()) == {"open"}
    script.write_bytes(b"mine")
    end(State(script.parent), "part3", Outcome.DONE, b"mine")
    assert states(script)["part3"] == "done"
    end(State(script.parent), "part3", Outcome.UNDECIDED, b"mine")
    assert states(script)["part3"] == "done"
    script.write_bytes(b"other")
    assert states(script)["part3"] == "done before"
    end(State(script.parent), "part3", Outcome.NOT_YET, b"other")
    assert states(script)["part3"] == "done before"
    end(State(script.parent), "part3", Outcome.DONE, b"other")
    assert states(script)["part3"] == "done"
    script.unlink()
    assert states(script)["part3"] == "done before"
    end(State(script.parent), "part5", Outcome.OTHER_WORK, b"other")
    assert states(script)["part5"] == "not the same work"


def test_the_next_part_comes_after_the_one_that_was_done(script: Path) -> None:
    state = State(script.parent)
    names = [part.name for part in all_parts()]
    assert progress.named_or_next(None, state).name == names[0]
    end(state, "part2", Outcome.DONE, b"")
    following = progress.next_part(state, after=find_part("part2"))
    assert following
    assert following.name == "part3"
    assert progress.next_part(state) == find_part("part1")
    for name in names:
        end(state, name, Outcome.DONE, b"")
    assert progress.next_part(state) is None
    assert progress.named_or_next(None, state).name == names[-1]
    assert progress.named_or_next("2", state).name == "part2"


def test_a_solution_is_for_those_who_have_tried(script: Path, run: Run) -> None:
    part, state = find_part("part3"), State(script.parent)
    refused = run("-m", "workshop", "solution", "part3")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "workshop check part3; or see the solution with --yes" in refused.stderr
    end(state, "part3", Outcome.NOT_YET, UNTOUCHED)
    with pytest.raises(WorkshopError, match="try it first"):
        progress.solution(state, part, yes=False)  # to check the untouched script is no try
    assert progress.solution(state, part, yes=True) == part.solution
    end(state, "part3", Outcome.BROKEN, b"mine")
    assert progress.solution(State(script.parent), part, yes=False) == part.solution
    assert run("-m", "workshop", "solution", "3").stdout == part.solution.read_text()
    with pytest.raises(WorkshopError, match="part2 asks a question"):
        progress.solution(state, find_part("part2"), yes=True)


def test_a_solution_that_is_written_keeps_yours(script: Path, run: Run) -> None:
    script.write_text("mine")
    done = run("-m", "workshop", "solution", "part5", "--write", "--yes")
    assert script.read_bytes() == (SOLUTIONS / "part5.py").read_bytes()
    [backup] = script.parent.glob("train-*.py")
    assert backup.read_text() == "mine"
    assert f"Yours is kept as {backup.name}" in done.stdout


def test_hints_come_one_by_one(script: Path, run: Run) -> None:
    hints = find_part("part3").hints
    for number, hint in [(1, hints[0]), (2, hints[1]), (3, hints[2]), (3, hints[2])]:
        printed = run("-m", "workshop", "hint", "part3").stdout
        assert printed.startswith(f"part3, hint {number} of 3\n\n{' '.join(hint.split())}\n")
        assert ("workshop solution part3" in printed) == (number == 3)
    assert run("-m", "workshop", "hint").stdout.startswith("part1, hint 1 of 3"), "without a name, of the next part"
    assert progress.progress(State(script.parent), script)[2].hints_seen == 3


def test_list_says_what_comes_next(script: Path, run: Run) -> None:
    end(State(script.parent), "part1", Outcome.DONE, UNTOUCHED)
    listed = run("-m", "workshop", "list").stdout
    lines = [" ".join(line.split()) for line in listed.splitlines()]
    assert lines[0] == "done part1 Watch it run"
    assert lines[1] == "open part2 Find the line"
    assert lines[-1] == "Next: part2, Find the line: workshop show part2"
    found = json.loads(run("-m", "workshop", "list", "--json").stdout)
    assert (found["schema_version"], found["next"]) == (1, "part2")
    assert [each["part"] for each in found["parts"]] == [part.name for part in all_parts()]
    assert found["parts"][0] == {
        "part": "part1",
        "title": "Watch it run",
        "state": "done",
        "best_ratio": None,
        "hints_seen": 0,
    }


def test_show_prints_the_lesson(script: Path, run: Run) -> None:
    assert run("-m", "workshop", "show", "4").stdout.strip() == find_part("4").lesson.read_text().strip()
    assert run("-m", "workshop", "show").stdout.startswith("# Part 1: ")
    assert run("-m", "workshop", "show", "part99").returncode == 2


def test_diff(script: Path, run: Run) -> None:
    refused = run("-m", "workshop", "diff", "part3")
    assert (refused.returncode, refused.stdout) == (2, "")
    mine = run("-m", "workshop", "diff", "part3", "--yes").stdout.splitlines()
    assert mine[:2] == ["--- train.py", "+++ solutions/part3.py"]
    assert any(line.startswith("+") and "num_workers" in line for line in mine)
    two = run("-m", "workshop", "diff", "part3", "part5", "--yes").stdout.splitlines()
    assert two[:2] == ["--- part3.py", "+++ solutions/part5.py"]
    assert any("CachedDataset" in line for line in two)
    script.write_bytes((SOLUTIONS / "part3.py").read_bytes())
    assert run("-m", "workshop", "diff", "part3", "--yes").stdout == ""


def test_reset_of_an_untouched_script_does_not_touch_it(script: Path, run: Run) -> None:
    before = script.stat().st_mtime_ns
    assert run("-m", "workshop", "reset").returncode == 0
    assert script.stat().st_mtime_ns == before, "a line profile of it stays valid"


def test_without_a_command_it_says_the_one_next_thing(script: Path, run: Run) -> None:
    def told(folder: Path = script.parent) -> str:
        says, command = progress.next_step(State(folder), folder / "train.py")
        assert says[-1] in ".?"
        return command

    assert told(script.parent / "elsewhere") == "workshop start part1"
    said = run("-m", "workshop")
    assert said.returncode == 0
    assert said.stdout.split("\n\n") == [
        "Welcome. First see whether this machine is ready.",
        "    workshop doctor",
        "All commands: workshop --help\n",
    ]
    State(script.parent).put("ready", "doctor")
    assert told() == "workshop show part1"
    assert run("-m", "workshop", "show", "part1").returncode == 0
    assert told() == "workshop check part1"
    end(State(script.parent), "part1", Outcome.NOT_YET, UNTOUCHED)
    assert told() == "workshop hint part1"
    assert run("-m", "workshop", "hint").returncode == 0
    assert told() == "workshop check part1"
    end(State(script.parent), "part1", Outcome.DONE, UNTOUCHED)
    assert told() == "workshop show part2"
    for part in all_parts():
        end(State(script.parent), part.name, Outcome.DONE, UNTOUCHED)
    assert told() == "workshop measure YOUR_SCRIPT"
