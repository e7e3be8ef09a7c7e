"""What changed between line profiles, which are made up: their times must be known."""

from dataclasses import replace
from pathlib import Path

import pytest
from made_lines import made_lines

from workshop.errors import WorkshopError
from workshop.profiles import line_change
from workshop.profiles.line_change import LineChange
from workshop.profiles.line_profile import LineProfile

BEFORE = """\
import time

def load(item):
    time.sleep(0.010)
    return item

def main():
    total = 0
    for item in range(10):
        image = load(item)
        time.sleep(0.004)
        time.sleep(0.002)
        total += image
    return total
"""

AFTER = """\
import time

def load(item):
    time.sleep(0.001)
    return item

def step(image):
    time.sleep(0.004)
    time.sleep(0.002)

def main():
    total = 0
    for item in range(10):
        image = load(item)
        step(image)
        total += image
    return total
"""

RECURSIVE = """\
def rec(n):
    if n:
        time.sleep(0.001)
        return rec(n - 1)
"""

Times = dict[str, dict[int, float]]
"""The milliseconds of each line, by function."""

OLD: Times = {"load": {4: 100, 5: 1}, "main": {8: 0, 9: 1, 10: 102, 11: 40, 12: 20, 13: 1, 14: 0}}
NEW: Times = {
    "load": {4: 10, 5: 1},
    "step": {8: 40, 9: 20},
    "main": {12: 0, 13: 1, 14: 12, 15: 61, 16: 1, 17: 0},
}


def profile(folder: Path, source: str, times: Times, noise_ms: float = 0.0) -> LineProfile:
    """A profile as `workshop record lines` writes it, in which each line ran ten times."""
    file = folder / "script.py"
    counts = {(file, name): {n: (10, ms + noise_ms) for n, ms in lines.items()} for name, lines in times.items()}
    return made_lines(folder / f"{len(list(folder.iterdir()))}.lprof", {file: source}, counts)


@pytest.fixture
def change(tmp_path: Path) -> LineChange:
    """A faster line, and two that were moved into a function of their own."""
    return line_change.between([profile(tmp_path, BEFORE, OLD)], [profile(tmp_path, AFTER, NEW)])


def test_a_function_that_was_split_is_compared_with_both_halves(change: LineChange) -> None:
    titles = {each.title: round(each.seconds * 1e3) for each in change.functions}
    assert titles == {"load": -90, "main -> main, step": -89}
    rows = {(row.kind, (row.after or row.before).text): round(row.seconds * 1e3) for row in change.functions[1].rows}  # type: ignore[union-attr]
    assert rows["moved", "time.sleep(0.004)"] == rows["moved", "time.sleep(0.002)"] == 0
    assert rows["added", "step(image)"] == 1, "without the time of the lines that are in a function now"
    assert rows["same", "image = load(item)"] == -90


def test_the_rows_sum_to_the_difference(change: LineChange) -> None:
    found = change.as_dict()
    assert sum(row.seconds for each in change.functions for row in each.rows) == pytest.approx(
        found["after_s"] - found["before_s"]
    )
    before, after = (sum(ms for lines in times.values() for ms in lines.values()) / 1e3 for times in (OLD, NEW))
    assert found["before_s"] == pytest.approx(before)
    assert found["after_s"] == pytest.approx(after - 0.060), "what was split off is not counted in its caller again"
    assert change.runs_s == (pytest.approx(0.164), pytest.approx(0.075))


def test_a_changed_line_is_one_row(change: LineChange) -> None:
    row = next(row for row in change.functions[0].rows if row.kind == "changed")
    assert (row.before and row.before.text, row.after and row.after.text) == ("time.sleep(0.010)", "time.sleep(0.001)")


NOISE = (0.0, 2.0, -1.0, 1.0, -2.0)


def test_noise_is_marked_where_there_are_several_runs(tmp_path: Path) -> None:
    old = [profile(tmp_path, BEFORE, OLD, noise) for noise in NOISE]
    again = [profile(tmp_path, BEFORE, OLD, noise + 0.5) for noise in NOISE]
    assert all(row.is_noise for each in line_change.between(old, again).functions for row in each.rows)
    changed = line_change.between(old, [profile(tmp_path, AFTER, NEW, noise) for noise in NOISE])
    real = {(row.after or row.before).text for each in changed.functions for row in each.rows if not row.is_noise}  # type: ignore[union-attr]
    assert real == {"time.sleep(0.001)", "image = load(item)"}


def test_a_loop_that_became_a_method_is_found_again(tmp_path: Path) -> None:
    body = BEFORE[BEFORE.index("def main") :].replace("def main():", "def run(self):").replace("\n", "\n    ").rstrip()
    source = BEFORE[: BEFORE.index("def main")] + f"class Trainer:\n    {body}\n"
    times = {"load": OLD["load"], "Trainer.run": {n + 1: ms for n, ms in OLD["main"].items()}}
    found = line_change.between([profile(tmp_path, BEFORE, OLD)], [profile(tmp_path, source, times)])
    assert {each.title: round(each.seconds, 6) for each in found.functions} == {"load": 0.0, "main -> Trainer.run": 0.0}
    assert {row.kind for each in found.functions for row in each.rows} == {"same"}


def test_what_was_split_off_is_subtracted_run_by_run(tmp_path: Path) -> None:
    """The function that was split off takes another time in each run, and its caller has nothing of its own."""
    runs = []
    for ms in (1000, 1200, 1200, 1300, 1200):
        slower = {"main": NEW["main"] | {15: ms}, "step": {8: ms - 20, 9: 20}, "load": NEW["load"]}
        runs.append(profile(tmp_path, AFTER, slower))
    change = line_change.between([profile(tmp_path, BEFORE, OLD)], runs)
    rows = [row for each in change.functions for row in each.rows if row.after and row.after.text == "step(image)"]
    assert [row.after_s for row in rows] == [pytest.approx(0.0, abs=1e-9)]


def test_one_run_says_nothing_of_noise(change: LineChange) -> None:
    assert change.runs == (1, 1)
    assert not any(row.is_noise for each in change.functions for row in each.rows)


def test_runs_of_different_scripts_are_not_mixed(tmp_path: Path) -> None:
    with pytest.raises(WorkshopError, match=r"are not runs of the same script\.py"):
        line_change.between([profile(tmp_path, BEFORE, OLD), profile(tmp_path, AFTER, NEW)], [])


def test_a_script_with_another_name_is_compared_too(tmp_path: Path) -> None:
    old, new = profile(tmp_path, BEFORE, OLD), profile(tmp_path, AFTER, NEW)
    other = tmp_path / "other.py"
    assert new.recorded
    renamed = replace(
        new,
        functions=tuple(replace(each, file=other) for each in new.functions),
        recorded=replace(new.recorded, sources={str(other): AFTER}),
    )
    assert {each.title for each in line_change.between([old], [renamed]).functions} == {"load", "main -> main, step"}


UNUSED = BEFORE.replace("image = load(item)", "image = load(item) if item < 0 else 1")


def test_what_did_not_run_is_not_deleted(tmp_path: Path) -> None:
    idle = profile(tmp_path, UNUSED, {"main": OLD["main"]})
    gone = profile(tmp_path, BEFORE[BEFORE.index("def main") :].replace("load(item)", "1"), {"main": {2: 0, 3: 1}})
    old = profile(tmp_path, BEFORE, OLD)

    def load(before: LineProfile, after: LineProfile) -> tuple[str, set[str]]:
        changes = line_change.between([before], [after]).functions
        return next((each.title, {row.kind for row in each.rows}) for each in changes if "load" in each.title)

    assert load(old, idle) == ("load, not run after", {"not run"})
    assert load(idle, old) == ("load, not run before", {"not run"})
    assert load(old, gone) == ("load, deleted", {"deleted"})
    assert load(gone, old) == ("load, added", {"added"})
    assert idle.recorded
    main_only = replace(idle, recorded=replace(idle.recorded, only=("main",)))
    assert load(old, main_only) == ("load, not profiled after", {"not profiled"})
    idle.functions[0].file.write_text(UNUSED)
    assert load(old, replace(idle, recorded=None)) == ("load, not profiled after", {"not profiled"}), "by kernprof"


def test_a_busier_machine_is_told_from_a_slower_line(tmp_path: Path) -> None:
    times: Times = {"load": OLD["load"], "main": {8: 10, 9: 12, 10: 102, 11: 40, 12: 20, 13: 15}}
    busy = {name: {line: ms * 2.1 for line, ms in lines.items()} for name, lines in times.items()}
    busy["main"][12] = 20 * 5  # and one line became slower by itself
    change = line_change.between([profile(tmp_path, BEFORE, times)], [profile(tmp_path, BEFORE, busy)])
    assert change.slowdown == pytest.approx(2.1)
    apart = [row.after.first for each in change.functions for row in each.rows if row.after and not row.as_untouched]
    assert apart == [12]
    quiet = line_change.between([profile(tmp_path, BEFORE, times)], [profile(tmp_path, BEFORE, times)])
    assert quiet.slowdown == 1
    assert not any(row.as_untouched for each in quiet.functions for row in each.rows)


@pytest.mark.parametrize("same_length", [False, True])
def test_runs_of_different_lengths_are_compared_by_the_time_of_a_hit(same_length: bool, tmp_path: Path) -> None:
    """One of 6 steps, and one of 50 that takes as long for each, but for a line that was edited."""
    file, made = tmp_path / "script.py", []
    for number, (hits, text, load_ms) in enumerate(((6, BEFORE, 10), (50, BEFORE.replace("0.010", "0.020"), 20))):
        steps = {8: (1, 3.0), 9: (hits + 1, 1.0), 10: (hits, 11.0 * hits), 11: (hits, 4.0 * hits), 14: (1, 0.0)}
        counts = {(file, "load"): {4: (hits, float(load_ms * hits))}, (file, "main"): steps}
        made.append(made_lines(tmp_path / f"{number}.lprof", {file: text}, counts))
    found = line_change.between(made[:1], made[1:], same_length=same_length)
    rows = {(row.after or row.before).text: round(row.seconds * 1e3) for each in found.functions for row in each.rows}  # type: ignore[union-attr]
    if same_length:
        assert (found.more_hits, rows["time.sleep(0.004)"]) == (1, 176)
        return
    assert found.more_hits == pytest.approx(50 / 6)
    assert (rows["time.sleep(0.004)"], rows["total = 0"]) == (0, 0), "also what ran once in each"
    assert rows["time.sleep(0.020)"] == 500


def test_the_levels_of_a_recursion_are_in_no_sum(tmp_path: Path) -> None:
    file, made = tmp_path / "script.py", []
    for number, sleep_ms in enumerate((30.0, 15.0)):
        counts = {(file, "rec"): {2: (31, 0.0), 3: (30, sleep_ms), 4: (30, 15 * sleep_ms)}}
        made.append(made_lines(tmp_path / f"{number}.lprof", {file: RECURSIVE}, counts))
    [function] = line_change.between(made[:1], made[1:]).functions
    assert (function.before_s, function.after_s) == pytest.approx((0.030, 0.015))
    assert [row.is_recursive for row in function.rows] == [False, False, True]
