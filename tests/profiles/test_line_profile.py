"""Line profiles of real runs, and whether they belong to the file as it is now."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from made_lines import made_lines

from workshop.errors import WorkshopError
from workshop.profiles import line_profile

SCRIPT = """
from line_profiler import profile
import time


class Thing:
    @profile
    def method(self):
        time.sleep(0.02)


@profile
def main():
    for _ in range(3):
        Thing().method()


def helper():
    pass


main()
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A profile and its script, which tests may write anew."""
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "kernprof", "-l", "script.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "script.py.lprof", folder / "script.py"


def test_functions_and_their_lines(profiled: tuple[Path, Path]) -> None:
    profile, script = profiled
    read = line_profile.read(profile)
    main, method = read.find(script, "main"), read.find(script, "method")
    assert main
    assert method
    assert (main.name, main.first_line, [line.hits for line in main.lines]) == ("main", 12, [4, 3])
    assert (method.name, method.first_line, [line.hits for line in method.lines]) == ("Thing.method", 7, [3])
    assert method == read.find(script, "Thing.method")
    assert 0.06 <= method.seconds <= main.seconds
    assert read.find(script, "helper") is None
    assert read.find(script.with_name("other.py"), "main") is None


def test_the_time_of_a_function_and_of_its_lines(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    counts = {(script, "main"): {14: (4, 5.0), 15: (3, 95.0)}}
    main = made_lines(tmp_path / "made.lprof", {script: SCRIPT}, counts).find(script, "main")
    assert main
    assert main.hottest == main.lines[1]
    assert [main.seconds, *map(main.share, (1, 14, 15))] == pytest.approx([0.1, 0.0, 0.05, 0.95])


@pytest.mark.parametrize(
    ("change", "saved_s", "says"),
    [
        (("", ""), -50, None),
        (("", ""), 40, "script.py was saved after script.py.lprof was written"),
        (("", ""), -5, "script.py was saved while the run behind script.py.lprof was under way"),
        (("class Thing", "\nclass Thing"), -50, "main does not begin in line 12"),
        (("main()", "other()"), -50, "main does not begin in line 12"),
        (("    for _ in range(3):\n        Thing()", "    if True: Thing()"), -50, "line 15 of script.py"),
        (("range(3)", "range(4)"), -50, None),  # what is changed without moving a line shows by the time alone
        (("def main()", "def main(:"), -50, "script.py cannot be read as Python"),
    ],
)
def test_whether_it_is_stale(
    change: tuple[str, str], saved_s: float, says: str | None, profiled: tuple[Path, Path]
) -> None:
    profile, script = profiled
    read = line_profile.read(profile)
    main = read.find(script, "main")
    assert main
    script.write_text(SCRIPT.replace(*change))
    saved = profile.stat().st_mtime + saved_s
    os.utime(script, (saved, saved))
    try:
        why = line_profile.why_stale(read, main, script, ran_s=20)
    except WorkshopError as error:
        why = str(error)
    assert why is None if says is None else says in (why or "")


def test_a_profile_of_line_profiler_before_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class was in a module of another name, with the same fields."""
    old: Any = ModuleType("_line_profiler")
    old.LineStats = type("LineStats", (), {"__module__": "_line_profiler"})
    monkeypatch.setitem(sys.modules, "_line_profiler", old)
    stats = old.LineStats()
    stats.timings, stats.unit = {("script.py", 12, "step"): [(12, 10, 5000), (13, 10, 9000)]}, 1e-6
    (tmp_path / "old.lprof").write_bytes(pickle.dumps(stats, 2))
    [step] = line_profile.read(tmp_path / "old.lprof").functions
    assert (step.name, step.first_line, step.lines[1].hits) == ("step", 12, 10)
    assert step.seconds == pytest.approx(0.014)


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"\x80\x04N.", b"\x80\x05\x95"])
def test_a_file_that_is_no_line_profile(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.lprof"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WorkshopError, match="make one with workshop record lines") as caught:
        line_profile.read(path)
    assert "\n" not in str(caught.value)
