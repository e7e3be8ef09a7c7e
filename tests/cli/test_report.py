"""`workshop report`, as a participant types it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

from conftest import Run
from kept_example import KEPT

from workshop.course import kept_checks
from workshop.course.state import State
from workshop.parts import all_parts


def test_a_page_before_and_after_a_check_and_a_reset(workshop: Run, project: Path, tmp_path: Path) -> None:
    empty = workshop("report")
    assert (empty.returncode, empty.stderr) == (0, "")
    assert empty.stdout == (
        f"workshop-report.html shows 0 of {len(all_parts())} parts done, and 0 checks. "
        f"No check was kept in {tmp_path}/.workshop yet: workshop check keeps each one.\n"
    )
    shutil.copy(project / "solutions" / "part3.py", tmp_path / "train.py")
    kept_checks.keep(State(tmp_path), replace(KEPT, timing=None))
    pages = [workshop("report").stdout]
    assert workshop("reset").returncode == 0
    pages.append(workshop("report").stdout)
    shown = f"workshop-report.html shows 1 of {len(all_parts())} parts done, and 1 check. Open it in a browser.\n"
    assert pages == [shown, shown]
    assert "3.30x" in (tmp_path / "workshop-report.html").read_text()


def test_json_has_all_that_was_kept(workshop: Run, tmp_path: Path) -> None:
    kept_checks.keep(State(tmp_path), replace(KEPT, timing=None))
    found = json.loads(workshop("report", "--json").stdout)
    assert (found["schema_version"], found["done"], found["count"]) == (1, 1, len(all_parts()))
    assert found["checks"][0]["gain"]["ratio"] == 3.3
    assert not (tmp_path / "workshop-report.html").exists()


def test_no_other_file_is_lost(workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.html").write_text("mine")
    refused = workshop("report", "-o", "mine.html")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "mine.html is there already, and no page of workshop report; name another with -o\n"
    assert (tmp_path / "mine.html").read_text() == "mine"
    nowhere = workshop("report", "-o", "nowhere/page.html")
    assert (nowhere.returncode, nowhere.stderr) == (2, "there is no folder nowhere for page.html\n")
