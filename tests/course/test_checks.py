"""What a check makes of the verdict on a change, and what it remembers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from said import MadeReason

from workshop.course import checks, kept_checks
from workshop.course.answers import AnswerCheck, usage
from workshop.course.state import State
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts import find_part

PART = """
title = "A part of the test's own"
script = "own.py"
steps = 1
hints = ["a nudge", "more", "nearly the answer"]
[change]
judged_by = "own_check.py"
"""
QUESTION = """
[question]
text = "Which line?"
answered_by = "line profile"
profiled = "main"
"""
CHECK = """
from said import MadeReason
from workshop.judge.verdict import NextStep, Outcome, Verdict
from workshop.runs.script_error import ScriptError

SO, LESS = MadeReason.SAYS("so it is"), MadeReason.SAYS("it drops a batch")

def check(bench):
    """

Check = Callable[..., Verdict]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Check a script by a part whose check has some lines, and perhaps a question."""
    folder, solutions = tmp_path / "workshop" / "parts" / "part99", tmp_path / "solutions"
    folder.mkdir(parents=True)
    solutions.mkdir()
    for path, script in (
        (folder / "own.py", "slow = True"),
        (solutions / "part99.py", "slow = 0"),
        (tmp_path / "own.py", "slow = False"),
    ):
        path.write_text(script)

    def run(lines: str, question: str = "") -> Verdict:
        (folder / "part.toml").write_text(PART + question)
        (folder / "own_check.py").write_text(CHECK + lines)
        part = find_part("99", folder.parent)
        return checks.check(part, tmp_path / "own.py", tmp_path, say=lambda _: None)

    return run


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.OTHER_WORK])
def test_a_change_is_not_enough_while_a_question_is_open(outcome: Outcome, check: Check, tmp_path: Path) -> None:
    lines = f"return Verdict(bench.subject, Outcome.{outcome.name}, (SO,))"
    verdict = check(lines, QUESTION)
    assert verdict.outcome is (Outcome.NOT_YET if outcome is Outcome.DONE else outcome)
    assert [*map(str, verdict.reasons)] == ["so it is", "a question is open: Which line?"]
    half = "half done: the change is right; the answer is missing"
    assert verdict.headline == (half if outcome is Outcome.DONE else "not the same work")
    correct = "correct this in own.py. To check again, type: workshop check part99"
    assert str(verdict.next) == ("workshop check part99 --answer ANSWER" if outcome is Outcome.DONE else correct)
    State(tmp_path).put("4", "parts", "part99", "answer")
    verdict = replace(check(lines, QUESTION), machine=None)
    is_done = outcome is Outcome.DONE
    assert (verdict.outcome, verdict.reasons, verdict.answered) == (outcome, (MadeReason.SAYS("so it is"),), True)
    assert str(verdict.next) == ("" if is_done else correct)
    assert verdict.headline == ("done" if is_done else "half done: the answer is right; the change: not the same work")
    assert State(tmp_path).get("parts", "part99", "last") == outcome.value
    assert State(tmp_path).get("parts", "part99", "state") == verdict.state


def test_time_to_think_is_not_the_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("x = 1")
    clock = SimpleNamespace(now_s=0.0, monotonic=lambda: clock.now_s)
    monkeypatch.setattr(checks, "time", clock)

    def judge(asked: AnswerCheck) -> Verdict:
        clock.now_s += 2.0
        asked.answer("yes")
        return asked.right(MadeReason.SAYS("so it is"))

    def think(_: str) -> str:
        clock.now_s += 60.0
        return "yes"

    part = find_part("part1")
    monkeypatch.setattr(usage, "judge_busiest", judge)
    kept: list[kept_checks.KeptCheck] = []
    checks.check(part, tmp_path / "train.py", tmp_path, say=lambda _: None, ask=think, tell=kept.append)
    assert (kept[0].seconds, kept[0].unraced) == (2.0, "")


@pytest.mark.parametrize(
    ("exit_code", "outcome", "says"),
    [
        (1, Outcome.BROKEN, "own.py crashed: it ended"),
        (None, Outcome.BROKEN, "own.py was stopped: it ended"),
        (0, Outcome.OTHER_WORK, "the script does not train: it ended"),
    ],
)
def test_a_script_that_breaks(exit_code: int | None, outcome: Outcome, says: str, check: Check) -> None:
    verdict = check(f"raise ScriptError('it ended', {exit_code}, 'ValueError: a bug', 'own.py')")
    found = (verdict.outcome, *map(str, verdict.reasons), verdict.output)
    assert found == (outcome, says, "ValueError: a bug")


AGAIN, ON = "check again, type: workshop check part99", "You can go on meanwhile: workshop show part1"


@pytest.mark.parametrize(
    ("then", "outcome", "says"),
    [
        ("words=LESS", Outcome.NOT_YET, f"it drops a batch. To {AGAIN}"),
        (
            "words=MadeReason.SAYS('Close workshop lines.')",
            Outcome.UNDECIDED,
            f"Close workshop lines. To {AGAIN}. {ON}",
        ),
        ("", Outcome.UNDECIDED, f"workshop check part99. {ON}"),
        ("('workshop show part99',)", Outcome.NOT_YET, "workshop show part99"),
        ("words=LESS", Outcome.DONE, "it drops a batch"),
    ],
)
def test_a_verdict_says_what_to_type_next(then: str, outcome: Outcome, says: str, check: Check) -> None:
    verdict = check(f"return Verdict(bench.subject, Outcome.{outcome.name}, (SO,), next=NextStep({then}))")
    assert str(verdict.next) == says


def test_a_verdict_is_kept(check: Check, tmp_path: Path) -> None:
    check("return Verdict(bench.subject, Outcome.OTHER_WORK, (LESS,))")
    check("return Verdict(bench.subject, Outcome.DONE, (SO,))")
    first, second = kept_checks.read(State(tmp_path))
    assert (first.part, first.script, first.outcome) == ("part99", "own.py", Outcome.OTHER_WORK)
    assert (first.reasons, first.unraced) == (("it drops a batch",), "a script that does other work is not raced")
    assert (second.outcome, second.speed, second.device) == (Outcome.DONE, None, "")
    assert second.machine.usable_cores >= 1
    assert second.versions["torch"]
    assert first.date <= second.date


def test_the_speed_of_the_solution_is_remembered_for_this_machine(check: Check) -> None:
    lines = """known, bench.solution_ratio = bench.solution_ratio, 4.0
    return Verdict(bench.subject, Outcome.NOT_YET, (MadeReason.SAYS(known),))"""
    assert check(lines).reasons[0].about == (None,)
    assert check(lines).reasons[0].about == (4.0,)


def test_a_script_in_which_nothing_was_changed_is_not_run(check: Check, tmp_path: Path) -> None:
    for script in ("slow = True", "# mine\n\nslow =  True  # still\n"):
        (tmp_path / "own.py").write_text(script)
        verdict = check("raise AssertionError('it was judged')")
        assert verdict.outcome is Outcome.NOT_YET
        [says] = map(str, verdict.reasons)
        assert says == "own.py is as it was at the beginning of the part: nothing has been changed yet"
        assert verdict.next.commands == ("workshop show part99",)
    (tmp_path / "own.py").write_text("slow = (")
    assert check("raise AssertionError('it was judged')").outcome is Outcome.BROKEN
