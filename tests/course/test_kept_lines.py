"""What is kept of line profiles: the hottest lines with their text, of the script as it ran."""

import os
from pathlib import Path

import pytest
from conftest import Run
from made_lines import made_lines

from workshop.course import kept_lines

SCRIPT = """\
import time


def main():
    for _ in range(3):
        time.sleep(0.02)
        total = 1


main()
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in the present folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_the_hottest_lines_of_the_script_that_ran(run: Run, script: Path) -> None:
    assert kept_lines.newest(script, script.read_bytes()) is None
    assert run("-m", "workshop", "record", "lines", "-o", "first.lprof", "--", "script.py").returncode == 0
    before = script.read_bytes()
    script.write_text(SCRIPT.replace("0.02", "0.001"))
    assert kept_lines.newest(script, before) is None, "it was edited while it was checked"
    assert kept_lines.newest(script, script.read_bytes()) is None, "the profile is not of this script"
    [found] = kept_lines.of_script(script)
    assert (found.profile, found.script) == ("first.lprof", "script.py")
    [main] = [each for each in found.functions if each.name == "main"]
    [sleep] = [each for each in main.lines if "sleep" in each.text]
    assert (sleep.line, sleep.hits, sleep.text) == (6, 3, "time.sleep(0.02)")
    assert 0.06 <= sleep.seconds <= main.seconds


def test_lines_that_took_less_than_a_hundredth_of_the_time_are_left_out(script: Path) -> None:
    counts = {(script, "main"): {5: (4, 1.1), 6: (3, 98.0), 7: (3, 0.9)}}
    made_lines(script.with_name("made.lprof"), {script: SCRIPT}, counts)
    [found] = kept_lines.of_script(script)
    assert [line.line for each in found.functions for line in each.lines] == [5, 6]


def test_a_profile_of_kernprof_counts_until_the_script_is_edited(run: Run, script: Path) -> None:
    script.write_text(SCRIPT.replace("def main", "@profile\ndef main"))
    os.utime(script, (1e9, 1e9))
    assert run("-m", "kernprof", "-l", "script.py").returncode == 0
    found = kept_lines.newest(script, script.read_bytes())
    assert found
    assert (found.profile, found.command, found.functions[0].name) == ("script.py.lprof", "", "main")
    script.write_text(SCRIPT)
    assert kept_lines.of_script(script) == []


def test_files_that_are_no_profiles_are_left_out(script: Path) -> None:
    script.with_name("broken.lprof").write_bytes(b"\x80no pickle")
    script.with_name("folder.lprof").mkdir()
    assert kept_lines.of_script(script) == []
