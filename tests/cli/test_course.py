"""The commands on the way through the parts."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Run
from kept_example import KEPT

from workshop.cli.output import _with_commands
from workshop.course import glossary, kept_checks, progress
from workshop.course.state import State
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts import HOME, SOLUTIONS, all_parts, find_part

UNTOUCHED = (SOLUTIONS / "part1.py").read_bytes()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(UNTOUCHED)
    return path


def test_without_a_command_it_says_the_one_next_thing(script: Path, workshop: Run) -> None:
    said = workshop()
    says = "Welcome. First see whether this machine is ready.\n\n    workshop doctor\n\nAll commands: workshop --help\n"
    assert (said.returncode, said.stdout) == (0, says)


def test_list_says_what_comes_next(script: Path, workshop: Run) -> None:
    part1 = find_part("part1")
    progress.remember(State(script.parent), part1, Verdict("part1", Outcome.DONE, ("",)), UNTOUCHED)
    listed = workshop("list").stdout
    lines = [" ".join(line.split()) for line in listed.splitlines()]
    assert lines[0] == "done part1 Watch it run"
    assert lines[1] == "open part2 Find the line"
    assert lines[-3:] == ["Next is part2, Find the line. Read what it is about.", "", "workshop show part2"]
    found = json.loads(workshop("list", "--json").stdout)
    assert (found["schema_version"], found["next"]) == (1, "part2")
    assert [each["part"] for each in found["parts"]] == [part.name for part in all_parts()]
    first = {"part": "part1", "title": "Watch it run", "state": "done", "best_ratio": None, "hints_seen": 0}
    assert found["parts"][0] == first | {"solved": {}}


def test_show_prints_the_lesson(script: Path, workshop: Run) -> None:
    assert workshop("show", "4").stdout.strip() == find_part("4").lesson.read_text().strip()
    assert workshop("show").stdout.startswith("# Part 1: ")
    assert State(script.parent).get("parts", "part1", "read") is True


def test_show_prints_a_word_of_the_glossary(script: Path, workshop: Run) -> None:
    one = workshop("show", "headroom").stdout
    assert one.startswith("### headroom\n\nHow fast the training would be")
    assert one.count("###") == 1
    assert workshop("show", "data wait").stdout == workshop("show", "data-wait").stdout
    assert workshop("show", "Workers").stdout.startswith("### worker\n")
    assert workshop("show", "glossary").stdout.count("\n### ") == len(glossary.entries())
    mistyped = workshop("show", "headrom")
    assert (mistyped.returncode, mistyped.stderr) == (2, "there is no 'headrom'; did you mean headroom?\n")
    assert "did you mean part3?" in workshop("show", "prat3").stderr
    assert workshop("show", "part13").stderr == "there is no part 'part13'; there are part1 to part12\n"


def test_show_prints_the_lesson_that_teaches_a_cause(script: Path, workshop: Run) -> None:
    assert workshop("show", "graph-kept").stdout.strip() == find_part("part12").lesson.read_text().strip()
    assert workshop("show", "few-workers").stdout.startswith("# Part 3: ")
    assert workshop("show", "operators").stdout.startswith("### operator\n"), "a word, though part 9 teaches it"
    assert "there is no part 'graph-kept'" in workshop("check", "graph-kept").stderr


def test_in_a_terminal_a_word_of_the_glossary_is_in_italics_and_named_at_the_end() -> None:
    lesson = """A [rank] and its [data
wait]: see [two workers][worker] and `x[0]`.

[The solution](../../../solutions/part3.py) · [All parts](..)

[rank]: ../../../docs/glossary.md#rank
[data wait]: ../../../docs/glossary.md#data-wait
[worker]: ../../../docs/glossary.md#worker
"""
    assert _with_commands(lesson).splitlines() == [
        "A *rank* and its *data",
        "wait*: see *two workers* and `x[0]`.",
        "",
        "- The solution: `workshop solution part3`",
        "- All parts: `workshop list`",
        "- In the glossary: rank, data-wait, worker. To read one: `workshop show rank`",
    ]
    entry = glossary.entries()["data-wait"]
    assert _with_commands(entry) == entry, "without links it stays as it is"


def test_hints_come_one_by_one(script: Path, workshop: Run) -> None:
    hints = find_part("part3").hints
    for number, hint in [(1, hints[0]), (2, hints[1]), (3, hints[2]), (3, hints[2])]:
        printed = workshop("hint", "part3").stdout
        assert printed.startswith(f"part3, hint {number} of 3\n\n{' '.join(hint.split())}\n")
        assert ("workshop solution part3" in printed) == (number == 3)
    assert workshop("hint").stdout.startswith("part1, hint 1 of 3"), "without a name, of the next part"
    assert progress.progress(State(script.parent), script)[2].hints_seen == 3


def test_diff(script: Path, workshop: Run) -> None:
    mine = workshop("diff", "part3", "--yes").stdout.splitlines()
    assert mine[:2] == ["--- train.py", "+++ solutions/part3.py"]
    assert any(line.startswith("+") and "num_workers" in line for line in mine)
    two = workshop("diff", "part3", "part5", "--yes").stdout.splitlines()
    assert two[:2] == ["--- solutions/part3.py", "+++ solutions/part5.py"]
    assert any("CachedDataset" in line for line in two)
    script.write_bytes((SOLUTIONS / "part3.py").read_bytes())
    assert workshop("diff", "part3", "--yes").stdout == ""


def test_a_solution_is_printed_or_written_and_yours_is_kept(script: Path, workshop: Run) -> None:
    shown = workshop("solution", "3", "--yes").stdout
    assert shown.startswith("--- train.py as it came\n+++ solutions/part3.py\n")
    assert re.search(r"^\+ .*num_workers=8", shown, re.M)
    assert f"The whole script is {find_part('part3').solution}" in shown
    assert shown.endswith("\n\n    workshop solution part3 --write\n")
    script.write_text("mine")
    done = workshop("solution", "part5", "--write", "--yes")
    assert script.read_bytes() == (SOLUTIONS / "part5.py").read_bytes()
    [backup] = script.parent.glob("train-*.py")
    assert backup.read_text() == "mine"
    assert f"Yours is kept as {backup.name}" in done.stdout
    following = ("workshop check part5", f"workshop restore {backup.name}")
    assert [line.strip() for line in done.stdout.splitlines() if line.startswith("    ")] == [*following]
    assert workshop(*following[1].split()[1:]).returncode == 0
    assert script.read_text() == "mine"


def test_a_part_with_a_script_of_its_own(workshop: Run, project: Path, tmp_path: Path) -> None:
    part = find_part("part9")

    def said(*arguments: str | Path, code: int = 0) -> str:
        done = workshop(*arguments)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    missing = f"there is no lattice.py here; the workshop's folder is {HOME}; put it there with workshop start part9"
    assert f"the workshop's folder is {HOME}" in workshop().stdout
    assert missing in said("check", "part9", "--answer", "1", code=2)
    assert missing in said("diff", "part9", "--yes", code=2)
    assert "lattice.py is here. What to do with it" in said("start", "part9")
    assert (tmp_path / "lattice.py").read_bytes() == (part.folder / "lattice.py").read_bytes()
    assert not (tmp_path / "train.py").exists()

    (tmp_path / "lattice.py").write_text("mine")
    assert "lattice.py is here already" in said("start", "9")
    assert (tmp_path / "lattice.py").read_text() == "mine"
    assert "-mine\n" in said("diff", "part9", "--yes")
    assert "Yours is kept as lattice-" in said("reset", "part9")
    assert [path.read_text() for path in tmp_path.glob("lattice-*.py")] == ["mine"]
    assert "is now the solution of part9" in said("solution", "part9", "--write", "--yes")
    assert (tmp_path / "lattice.py").read_bytes() == part.solution.read_bytes()

    assert "there is no recording of lattice.py as it first came" in said("check", "part9", "--answer", "1", code=1)
    assert "lattice.py takes no config" in said(
        "check", "part9", "--answer", "1", "--config", project / "configs" / "example_config.py", code=2
    )
    assert "part3" in said("start", "part3")
    assert (tmp_path / "train.py").read_bytes() == (project / "train.py").read_bytes()


def test_the_report_before_and_after_a_check_and_a_reset(workshop: Run, project: Path, tmp_path: Path) -> None:
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


def test_the_report_as_json_has_all_that_was_kept(workshop: Run, tmp_path: Path) -> None:
    kept_checks.keep(State(tmp_path), replace(KEPT, timing=None))
    found = json.loads(workshop("report", "--json").stdout)
    assert (found["schema_version"], found["done"], found["count"]) == (1, 1, len(all_parts()))
    assert found["checks"][0]["gain"]["ratio"] == 3.3
    assert not (tmp_path / "workshop-report.html").exists()


def test_no_other_file_is_lost_to_a_report(workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.html").write_text("mine")
    refused = workshop("report", "-o", "mine.html")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "mine.html is there already, and no page of workshop report; name another with -o\n"
    assert (tmp_path / "mine.html").read_text() == "mine"
    nowhere = workshop("report", "-o", "nowhere/page.html")
    assert (nowhere.returncode, nowhere.stderr) == (2, "there is no folder nowhere for page.html\n")
