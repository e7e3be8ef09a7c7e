"""The tables of line profiles that are made up: what counts for a function's time, and what is said of it."""

from pathlib import Path

import pytest
from made_lines import Counts, made_lines

from workshop.profiles.line_profile import LineProfile
from workshop.profiles.line_tables import TOGETHER, LineTable, notes, tables

SCRIPT = """\
def rec(n):
    if n:
        time.sleep(0.001)
        return work() + rec(n - 1)


class Node:
    def visit(self):
        for child in self.children: child.visit()

    def length(self):
        return self.next and 1 + self.next.length()

    def walk(self, n):
        return n and self.walk(n - 1)


print(rec(30))
"""


def made(folder: Path, counts: Counts) -> tuple[LineProfile, dict[str, LineTable]]:
    """A profile, and its tables by the title of the function."""
    profile = made_lines(folder / "x.lprof", {folder / "script.py": SCRIPT}, counts)
    return profile, {each.function.title: each for each in tables(profile)[TOGETHER]}


@pytest.mark.parametrize("is_caller_known", [True, False])
def test_of_a_recursion_the_outermost_level_counts(is_caller_known: bool, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    caller = {(file, "<module>"): {18: (1, 40.0)}} if is_caller_known else {}
    profile, found = made(tmp_path, {(file, "rec"): {2: (31, 0.0), 3: (30, 30.0), 4: (30, 500.0)}} | caller)
    rec = found["rec"]
    assert rec.seconds == pytest.approx(0.040 if is_caller_known else 0.030)
    assert [row.is_recursive for row in rec.rows] == [False, False, True]
    assert rec.rows[1].share == pytest.approx(0.030 / rec.seconds)
    assert any("rec calls itself" in note for note in notes(profile, {TOGETHER: [*found.values()]}))
    alone = tables(profile, name="rec")[TOGETHER]
    assert [each.seconds for each in alone] == [rec.seconds], "also where only this function is asked for"


def test_a_method_of_another_object_may_be_another_one(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    counts = {"Node.visit": {9: (4, 1.0)}, "Node.length": {12: (4, 1.0)}, "Node.walk": {15: (4, 1.0)}}
    _, found = made(tmp_path, {(file, name): lines for name, lines in counts.items()})
    assert {name: table.rows[0].is_recursive for name, table in found.items()} == {
        "Node.visit": False,
        "Node.length": False,
        "Node.walk": True,
    }


def test_more_time_than_the_run_took_is_said(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    profile, found = made(tmp_path, {(file, "Node.visit"): {9: (30, 270.0)}})
    object.__setattr__(profile.recorded, "seconds", 0.017)
    [note] = [each for each in notes(profile, {TOGETHER: [*found.values()]}) if "Node.visit" in each]
    assert "has 0.27 s, and the run took 0.017 s" in note


def test_an_import_in_a_function_is_not_its_hottest_line(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    script = "def main():\n  from zoo import (\n    models,\n  )\n  train(models)\n\ndef train(models):\n  pass\n"
    counts = {(file, "main"): {2: (1, 900.0), 5: (1, 100.0)}, (file, "train"): {8: (1, 99.0)}}
    [main, train] = tables(made_lines(tmp_path / "x.lprof", {file: script}, counts))[TOGETHER]
    assert [(row.first, row.last, row.is_import) for row in main.rows] == [(2, 4, True), (5, 5, False)]
    assert (main.imports_s, main.seconds, main.whole_s) == pytest.approx((0.9, 0.1, 1.0))
    assert main.rows[0].share == pytest.approx(0.9), "its figures in --json are of the whole function"
    assert train.imports_s == 0
