"""The participant's script is replaced without being lost, and watched while it is edited."""

from pathlib import Path

import pytest
from conftest import Run

from workshop.course import scripts
from workshop.course.scripts import changes, existing, replace_script
from workshop.errors import WorkshopError
from workshop.parts import find_part

UNTOUCHED = find_part("part1").untouched


def test_reset_keeps_what_was_there(workshop: Run, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    for number, text in enumerate((None, "mine", "mine, too")):
        if text:
            script.write_text(text)
        before = set(tmp_path.glob("train-*.py"))
        said = workshop("reset").stdout
        assert script.read_bytes() == UNTOUCHED.read_bytes()
        new = set(tmp_path.glob("train-*.py")) - before
        assert [path.read_text() for path in new] == [text] * (number > 0)
        assert all(f"Yours is kept as {path.name}" in said for path in new)


def test_reset_of_an_untouched_script_does_not_touch_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    assert replace_script(script, UNTOUCHED) is None
    before = script.stat().st_mtime_ns
    assert replace_script(script, UNTOUCHED) is None
    assert script.stat().st_mtime_ns == before, "a line profile of it stays valid"


def test_a_script_that_could_be_run_can_still_be_run(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("#!/usr/bin/env python")
    script.chmod(0o755)
    kept = replace_script(script, UNTOUCHED)
    assert kept
    assert [path.stat().st_mode & 0o777 for path in (script, kept)] == [0o755, 0o755]


@pytest.mark.parametrize(
    ("script", "says"),
    [("lattice.py", "put it there with workshop start part9"), ("other.py", "name your script with --script")],
)
def test_a_script_that_is_not_there(script: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkshopError, match=says):
        existing(Path(script), find_part("part9"))


def test_once_now_and_at_every_change(tmp_path: Path) -> None:
    script, profile = tmp_path / "train.py", tmp_path / "train.py.lprof"
    script.write_text("1")
    changing = changes([script, profile], 0.02)
    next(changing)
    script.write_text("2")
    next(changing)
    profile.write_text("of it")
    next(changing)


def test_only_what_stays_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone, saved as it was, or still being written is waited for: counted in looks, not in seconds."""
    script = tmp_path / "train.py"
    script.write_text("1")
    acts = [
        lambda: script.touch(),
        lambda: script.unlink(),
        lambda: None,
        lambda: script.write_text("1"),  # an editor that writes anew what was there
        lambda: script.write_text("2, half"),
        lambda: script.write_text("2, whole"),
        lambda: None,
    ]
    monkeypatch.setattr(scripts.time, "sleep", lambda _: acts.pop(0)())
    changing = changes([script])
    next(changing)
    assert len(acts) == 7
    next(changing)
    assert (acts, script.read_text()) == ([], "2, whole")
