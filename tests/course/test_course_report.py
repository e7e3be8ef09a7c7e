"""What `workshop report` gathers: the checks of each part, the first and the last line profile, and the pages."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kept_example import KEPT, LINES, MEMORY, RACED, SPEED

from workshop.course import course_report, kept_checks
from workshop.course.course_report import PartReport
from workshop.course.state import State
from workshop.judge.verdict import Outcome
from workshop.pages.template import fill
from workshop.parts import all_parts


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    """The state of the present folder, in which nothing has been done."""
    monkeypatch.chdir(tmp_path)
    return State(tmp_path)


def gathered(state: State) -> course_report.CourseReport:
    return course_report.gather(state, Path("train.py"))


def of_part(state: State, name: str) -> list[PartReport]:
    return [each for each in gathered(state).parts if each.part.name == name]


def test_nothing_has_been_done(state: State) -> None:
    found = gathered(state)
    assert [each.part.name for each in found.parts] == [part.name for part in all_parts()]
    assert found.count == (0, len(all_parts()))
    assert (found.checks, found.lines, found.pages) == ((), (), ())
    assert json.loads(json.dumps(found.as_dict()))["parts"][2]["shown"] is None


def test_the_best_check_that_was_done_is_shown_and_the_last_is_told(state: State) -> None:
    slow = replace(RACED, outcome=Outcome.NOT_YET, headline="not there yet", speed=replace(SPEED, ratio=9.0))
    kept = [
        replace(RACED, at="2030-05-04T10:01:00+02:00", speed=replace(SPEED, ratio=2.0)),
        replace(RACED, at="2030-05-04T10:02:00+02:00", speed=replace(SPEED, ratio=3.0)),
        replace(RACED, at="2030-05-04T10:03:00+02:00", speed=replace(SPEED, ratio=2.5)),
        replace(slow, at="2030-05-04T10:04:00+02:00"),
    ]
    for each in kept:
        kept_checks.keep(state, each)
    [part] = of_part(state, "part3")
    assert (part.is_done, part.shown, part.last) == (True, kept[1], kept[3])
    kept_checks.path_beside(state).unlink()
    kept_checks.keep(state, kept[3])
    [part] = of_part(state, "part3")
    assert (part.is_done, part.shown, part.last) == (False, kept[3], kept[3])


def test_a_check_without_a_race_has_no_gain() -> None:
    unraced = replace(RACED, speed=None, unraced="the check ended before a race")
    assert course_report.with_gain(unraced)["gain"] is None
    gain = course_report.with_gain(RACED)["gain"]
    assert (gain["text"], gain["interval"], gain["before"]) == ("3.30x", "3.10x to 3.50x", "the untouched script")
    of_an_answer = course_report.with_gain(replace(unraced, part="part7"))
    assert of_an_answer["unraced"] == "", "a part that is never raced says nothing of a race"
    less_memory = course_report.with_gain(replace(RACED, part="part12", memory=MEMORY))
    assert (less_memory["gain"], less_memory["memory"]["before_bytes"]) == (None, 155 << 20)
    against_the_fixed = replace(RACED, part="part11", case="whale_calls")
    assert (course_report.with_gain(against_the_fixed)["gain"], against_the_fixed.ratio) == (None, None)
    timed = course_report.with_gain(KEPT)["gain"]
    assert (timed["text"], timed["interval"], timed["low"]) == ("2.00x", "median of 3 runs each", None)


def test_what_was_done_before_checks_were_kept_is_done(state: State) -> None:
    state.put({"done": True}, "parts", "part3")
    [part] = of_part(state, "part3")
    assert (part.is_done, part.shown) == (True, None)


def test_each_script_of_a_part_with_many_has_a_row(state: State) -> None:
    state.put({"done": True, "solved": {"whale_calls": 12.0}, "case": "click_rates"}, "parts", "part11")
    kept_checks.keep(state, replace(KEPT, part="part11", case="whale_calls"))
    rows = of_part(state, "part11")
    assert [(each.case, each.is_done, each.minutes) for each in rows] == [
        ("whale_calls", True, 12.0),
        ("click_rates", False, None),
    ]
    assert gathered(state).count[0] == 1


def test_the_first_line_profile_and_the_last_of_another_script(state: State) -> None:
    edited = replace(LINES, fingerprint="two", at="2030-05-04T10:10:00+02:00")
    again = replace(LINES, at="2030-05-04T10:20:00+02:00")
    for lines in (LINES, None, edited, again):
        kept_checks.keep(state, replace(KEPT, lines=lines))
    assert gathered(state).lines == ((LINES, edited),)
    kept_checks.path_beside(state).unlink()
    kept_checks.keep(state, replace(KEPT, lines=again))
    assert gathered(state).lines == ((again, None),)


def test_pages_are_those_that_commands_have_made(state: State, tmp_path: Path) -> None:
    (tmp_path / "trace.html").write_text(fill("a <trace>", "", "workshop trace"))
    (tmp_path / "report.html").write_text(fill("a report", "", "workshop report"))
    (tmp_path / "mine.html").write_text("<title>mine</title>")
    [page] = gathered(state).pages
    assert (page.path, page.made_by, page.title) == (tmp_path / "trace.html", "workshop trace", "a <trace>")
