"""The workshop proves itself: every part can be failed and passed, and every cheat is refused."""

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from judge.recorded_evidence import SCRIPTS

from workshop.course import selftest
from workshop.parts import Part, all_parts, find_part
from workshop.parts.case import case_names, find_case

PROVEN_ELSEWHERE = {*SCRIPTS, "part9"}
"""The parts whose cheats are tried by judge/test_work_proof.py and parts/test_part9.py."""

OF_PARTS = {
    "part5, the script with nothing gained": r"nothing is kept: \d+ of \d+ photos were read slowly again in the second",
    "part6, the script with nothing gained": r"0 of \d+ batches were copied to the device before",
    "part10, the script with nothing gained": "init_process_group is missing",
    "part10, its solution": "2 ranks train one model: each item once an epoch",
}
"""Patterns of what the selftest prints, by the part and what is tried."""

IN_EACH_CHANGE = ("part2", "part6")
"""A part that asks a question, and one that asks for a change which is shown without a race."""


def marked(part: Part) -> Any:
    return pytest.param(
        part, marks=pytest.mark.slow if part.name in IN_EACH_CHANGE else pytest.mark.acceptance, id=part.name
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", [marked(part) for part in all_parts() if not case_names(part)])
def test_a_part_proves_itself(part: Part, workshop: Run, data: Path) -> None:
    without_cheats = ["--no-cheats"] * (part.name in PROVEN_ELSEWHERE)
    done = workshop("dev", "selftest", part.name, "--data", data, *without_cheats)
    assert done.returncode == 0, done.stdout
    tried = dict(re.findall(r"^ok    ([^:]*): (.*)$", done.stdout, re.M))
    expected = (
        {"the untouched script", "the script with nothing gained", "its solution"}
        if part.change
        else {"no answer", "the right answer"}
    )
    if part.question:
        expected |= {"a wrong answer"} | (
            {"without a profile"} if part.question.profiled or part.question.recorded else set()
        )
    assert tried.keys() >= {f"{part.name}, {what}" for what in expected}
    for what in tried.keys() & OF_PARTS.keys():
        assert re.search(OF_PARTS[what], tried[what])
    if not without_cheats:
        cheats = {path.stem for path in (selftest.CHEATS / part.name).glob("*.py")} - {"variation"}
        assert {what.partition(" cheat ")[2] for what in tried if " cheat " in what} == cheats


@pytest.mark.acceptance
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", case_names(find_part("part11")))
def test_a_script_of_part11_proves_itself(name: str, workshop: Run, data: Path) -> None:
    done = workshop("dev", "selftest", "part11", "--script", name, "--data", data)
    assert done.returncode == 0, done.stdout
    tried = dict(re.findall(rf"^ok    (?:part11 {name}, )?([^:]*): (.*)$", done.stdout, re.M))
    case = find_case(find_part("part11"), name)
    asked = {"no_results": case.prints or case.writes, "no_wait": case.storage}
    cheats = {path.stem for path in (selftest.CHEATS / "part11").glob("*.py") if asked.get(path.stem, True)}
    assert {what.partition("cheat ")[2] for what in tried if what.startswith("cheat ")} == cheats
    expected = {"a wrong line", "a wrong cause", "the untouched script", "the script with nothing gained"}
    assert tried.keys() >= expected | {"its solution"}
    assert "backward runs" in tried["cheat every_second_backward"]
    if case.writes:
        assert f"it has not written {case.writes[0]}" in tried["cheat no_results"]


def test_a_script_of_part11_that_is_not_there(workshop: Run) -> None:
    done = workshop("dev", "selftest", "part11", "--script", "nosuch")
    assert done.returncode == 2
    assert "part11 has no script 'nosuch'" in done.stderr


def test_what_fails_is_marked_and_an_installed_package_says_that_it_has_no_cheats(
    workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "CHEATS", tmp_path / "cheats")
    monkeypatch.setattr(selftest, "HINTS", 4)
    monkeypatch.setattr(selftest.PartProof, "questions", lambda _: ())
    done = workshop("dev", "selftest", "part4")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"-     cheats: not tried: they come with a checkout of the workshop, there is no {tmp_path / 'cheats'}",
        "FAIL  part4 has a lesson and 4 hints: 3 hints",
    ]
