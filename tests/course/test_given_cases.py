"""Part 11: everybody gets another script, an answer is judged by its line and cause, and the next script follows."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import Run
from said import NOTHING_CHANGED

from workshop.course import given_cases, progress
from workshop.course.checks import check
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.judge.verdict import Outcome, Speed, Verdict
from workshop.parts import find_part
from workshop.parts.case import Case, case_names, find_case

PART = find_part("part11")
NAMES = case_names(PART)


def solve(state: State, case: Case) -> None:
    speed = Speed("", "", 1.0, 1.0, 1.0, 1.0, 1.0, 3, 0.8, {}, {}, None, None)
    progress.remember(state, case, Verdict("part11", Outcome.DONE, ("",), speed), case.solution.read_bytes())


def test_a_seed_gives_everybody_the_same_order_and_begins_with_the_script_of_its_number() -> None:
    orders = [given_cases.in_order_of(seed, NAMES) for seed in range(1, 2 * len(NAMES) + 1)]
    assert [order[0] for order in orders] == NAMES * 2
    assert all(sorted(order) == NAMES for order in orders)
    assert len({tuple(order[1:5]) for order in orders}) == len(orders)
    assert orders[6] == given_cases.in_order_of(7, NAMES)


def test_without_a_seed_neighbours_get_different_scripts(tmp_path: Path) -> None:
    given = [given_cases.give(PART, State(tmp_path / str(number))) for number in range(20)]
    assert len({case.case for case in given if case}) > 5


def test_each_script_is_given_once_and_the_next_when_it_is_solved(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert given_cases.given(PART, state) == PART
    seen = []
    while case := given_cases.give(PART, state, seed=None if seen else 5):
        assert given_cases.give(PART, state) == given_cases.given(PART, state) == case, "as long as it is not solved"
        state.put(2, "parts", "part11", "hints")
        solve(state, case)
        seen.append(case.case)
    assert seen == given_cases.in_order_of(5, NAMES)
    assert given_cases.solved(PART, state).keys() == set(NAMES)
    assert progress.next_part(state, after=PART) == find_part("part12")


def test_another_seed_gives_another_script_and_forgets_hints_and_answers(tmp_path: Path) -> None:
    state = State(tmp_path)
    first = given_cases.give(PART, state, seed=1)
    state.put("41:slow-item", "parts", "part11", "answer")
    progress.next_hint(state, given_cases.given(PART, state))
    second = given_cases.give(PART, state, seed=2)
    assert first
    assert second
    assert [first.case, second.case] == NAMES[:2]
    assert state.get("parts", "part11", "answer") is None
    assert progress.next_hint(state, second)[0] == 1


def test_what_one_script_asks_is_not_asked_of_the_next() -> None:
    printing = find_case(PART, "click_rates")
    assert printing.prints
    assert find_case(printing, "whale_calls") == find_case(PART, "whale_calls")
    with pytest.raises(WorkshopError, match="part11 has no script 'nosuch'; there are answer_spans, "):
        find_case(PART, "nosuch")


def test_the_answer_is_a_line_and_a_cause(tmp_path: Path, data: Path) -> None:
    case = find_case(PART, "whale_calls")
    script = tmp_path / case.script
    source = case.untouched.read_text()
    script.write_text(source)
    line = min(case.right_lines(script))

    def says(answer: str) -> str:
        verdict = check(case, script, data, say=lambda _: None, ask=lambda _: answer)
        assert verdict.outcome is Outcome.NOT_YET, "nothing has been changed"
        assert any(each.startswith("workshop check part11") for each in verdict.next.commands)
        return "; ".join(map(str, verdict.reasons))

    assert says(f"{line}:own-work") == f"line {line} is the one, but the cause is not own-work"
    assert says(f"{line + 1} slow-item") == f"slow-item is the cause, but line {line + 1} is not the one"
    assert says("1, own-work") == "line 1 is not the one, and the cause is not own-work"
    assert says(f"{line}: Slow-Item") == (
        f"your answer is right: line {line} is the one, and the cause is slow-item; "
        "whale_calls.py is as it was at the beginning of the part: nothing has been changed yet; "
        "now remove this cause, and check again"
    )
    script.write_text(f"\n\n{source}")
    assert NOTHING_CHANGED in says(f"{line}:slow-item"), "as it came"
    assert NOTHING_CHANGED in says(f"{line + 2}:slow-item"), "as it is now"


def test_the_commands(workshop: Run, tmp_path: Path) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        done = workshop(*arguments)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    for command in ("check", "watch", "solution", "diff", "reset"):
        assert "get yours with workshop start part11" in said(command, "part11", code=2)
    assert "part3 has the same script for everybody" in said("start", "part3", "--seed", "1", code=2)
    number = NAMES.index("tide_levels") + 1
    assert "tide_levels.py is here. What to do with it" in said("start", "part11", "--seed", str(number))
    script = tmp_path / "tide_levels.py"
    case = find_case(PART, "tide_levels")
    assert script.read_bytes() == case.untouched.read_bytes()
    assert "tide_levels.py is here already" in said("start", "11")
    assert f"part11, hint 1 of 3\n\n{case.hints[0]}" in said("hint", "part11")
    assert "41 is no answer to this; give the number of a line and a cause, such as 41:slow-item" in said(
        "check", "part11", "41", code=2
    ).replace("'", "")
    assert "part11: not there yet" in said("check", "part11", "1:slow-item", code=1)
    right = f"{min(case.right_lines(script))}:{case.cause}"
    half = "part11: half done: the answer is right; the change: not there yet\n- your answer is right: line "
    assert half in said("check", "part11", right, code=1)
    assert "try it first" in said("solution", "part11", code=2)
    script.write_text("mine")
    assert said("diff", "part11", "--yes").startswith("--- tide_levels.py\n+++ tide_levels.py fixed\n")
    shown = said("solution", "part11", "--yes")
    assert shown.startswith("--- tide_levels.py as it came\n+++ tide_levels.py fixed\n")
    assert "The whole script" not in shown, "it is a temporary file"
    assert "Yours is kept as tide_levels-" in said("solution", "part11", "--write", "--yes")
    assert script.read_bytes() == case.solution.read_bytes()
    assert "the original again" in said("reset", "part11")

    solve(State(tmp_path), case)
    listed = json.loads(said("list", "--json"))["parts"][10]
    assert listed["title"] == "A script you have never seen"
    assert (listed["state"], listed["best_ratio"], listed["solved"]) == ("done", None, {"tide_levels": 0.0})
    assert "1 script solved, in 0 minutes" in " ".join(said("list").split())
    following = given_cases.in_order_of(number, NAMES)[1]
    assert f"{following}.py is here" in said("start", "part11")
    assert f"A script you have never seen: {following}.py is open; 1 script solved" in " ".join(said("list").split())


def test_git_ignores_what_a_script_puts_into_the_clone(project: Path) -> None:
    cases = [find_case(PART, name) for name in NAMES]
    left = [case.script for case in cases] + [file for case in cases for file in (*case.writes, case.storage) if file]
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", *left, "train.py"], cwd=project, capture_output=True, text=True
    )
    if asked.returncode == 128:
        pytest.skip("this is no checkout of git")
    assert asked.stdout.split() == left
