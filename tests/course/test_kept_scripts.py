"""Scripts that were replaced, or that passed: each is found again by its part."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Run
from kept_example import RACED

from workshop.course import kept_checks, kept_scripts, progress
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts import find_part

PART5, UNTOUCHED = find_part("part5"), find_part("part1").untouched


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    shutil.copy(UNTOUCHED, path)
    return path


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path)


def judged(state: State, part: str, content: bytes, outcome: Outcome) -> None:
    """Keep how a check ended, as `check` does."""
    progress.remember(state, find_part(part), Verdict(part, outcome, ("",)), content)
    kept_checks.keep(state, replace(RACED, part=part, fingerprint=progress.fingerprint(content), outcome=outcome))


def test_the_part_is_that_whose_check_judged_the_script(script: Path, state: State) -> None:
    judged(state, "part5", b"mine", Outcome.NOT_YET)
    judged(state, "part3", b"other", Outcome.DONE)
    for content, part in ((b"mine", "part5"), (PART5.solution.read_bytes(), "part5"), (b"never judged", "part5")):
        script.write_bytes(content)
        judged(state, "part5", b"else", Outcome.NOT_YET)
        kept = kept_scripts.replace(script, UNTOUCHED.read_bytes(), state)
        assert kept
        assert kept.name.startswith(f"train-{part}-")
        assert kept.read_bytes() == content
    judged(state, "part5", b"else", Outcome.DONE)
    script.write_bytes(b"the beginning of part 6")
    kept = kept_scripts.replace(script, UNTOUCHED.read_bytes(), state)
    assert kept
    assert kept.name.startswith("train-part6-")


def test_restore_puts_back_the_one_that_passed(script: Path, state: State, workshop: Run) -> None:
    kept_scripts.keep_done(state, PART5, script, b"passed")
    script.write_bytes(b"spoiled")
    said = workshop("restore", "part5")
    assert (said.returncode, script.read_bytes()) == (0, b"passed")
    [kept] = script.parent.glob("train-part*.py")
    assert kept.read_bytes() == b"spoiled"
    assert f"Yours is kept as {kept.name}" in said.stdout
    workshop("reset")
    assert list(script.parent.glob("train-part*.py")) == [kept], "what was kept already is not kept again"


def test_what_was_kept_without_a_part_can_be_put_back(script: Path, state: State, workshop: Run) -> None:
    old, unknown = (script.with_name(f"train-2030-01-0{day}T10.00.00.py") for day in (1, 2))
    old.write_bytes(b"old")
    unknown.write_bytes(b"unknown")
    judged(state, "part5", b"old", Outcome.NOT_YET)
    assert kept_scripts.of_part(state, script, PART5).path == old
    listed = workshop("restore").stdout
    assert [word in listed for word in (old.name, unknown.name, "part5", "?")] == [True] * 4
    assert workshop("restore", unknown.name).returncode == 0
    assert script.read_bytes() == b"unknown"
    of_another = script.with_name("nowcast-2030-01-01T10.00.00.py")
    of_another.write_bytes(b"nowcast")
    assert workshop("restore", of_another.name).returncode == 0
    assert (script.read_bytes(), script.with_name("nowcast.py").read_bytes()) == (b"unknown", b"nowcast")
    (script.with_name("other.py")).write_bytes(b"mine")
    assert workshop("restore", "other.py").returncode == 2, "it was not kept"
    with pytest.raises(WorkshopError, match="part5"):
        kept_scripts.of_part(state, script, find_part("part6"))


def test_of_a_part_that_kept_no_script_the_last_one_is_offered(script: Path, state: State) -> None:
    with pytest.raises(WorkshopError, match=r"part5 was kept; .* workshop solution part5 --write --yes$"):
        kept_scripts.of_part(state, script, PART5)
    for part in ("part3", "part6"):
        kept_scripts.keep_done(state, find_part(part), script, b"passed")
    with pytest.raises(WorkshopError, match=r"of part6: workshop restore part6$"):
        kept_scripts.of_part(state, script, PART5)
