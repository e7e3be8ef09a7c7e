"""Files that change while they are watched."""

import itertools
from pathlib import Path

import pytest

from workshop.course import file_changes
from workshop.course.file_changes import changes


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
    acts = iter(
        [
            lambda: script.touch(),
            lambda: script.unlink(),
            lambda: None,
            lambda: script.write_text("1"),  # an editor that writes anew what was there
            lambda: script.write_text("2, half"),
            lambda: script.write_text("2, whole"),
            lambda: None,
        ]
    )
    waits = itertools.count(1)
    waited = 0

    def sleep(_: float) -> None:
        nonlocal waited
        waited = next(waits)
        next(acts)()

    monkeypatch.setattr(file_changes.time, "sleep", sleep)
    changing = changes([script], 1.0)
    next(changing)
    assert waited == 0
    next(changing)
    assert (waited, script.read_text()) == (7, "2, whole")
