"""Line profiles of real runs, and whether they belong to the file as it is now."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

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
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, float]:
    """A profile's content, and when it was written."""
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "kernprof", "-l", "script.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    profile = folder / "script.py.lprof"
    return profile.read_bytes(), profile.stat().st_mtime


@pytest.fixture
def placed(pair: tuple[bytes, float], tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """The profile beside a script, both with times of their own in seconds from now."""

    def place(source: str = SCRIPT, saved_s: float = -100.0, written_s: float = -50.0) -> tuple[Path, Path]:
        script, profile = tmp_path / "script.py", tmp_path / "script.py.lprof"
        script.write_text(source)
        profile.write_bytes(pair[0])
        now = time.time()
        os.utime(script, (now, now + saved_s))
        os.utime(profile, (now, now + written_s))
        return profile, script

    return place


def test_functions_and_their_lines(placed: Callable[..., tuple[Path, Path]]) -> None:
    profile, script = placed()
    main, method = line_profile.find(profile, script, "main"), line_profile.find(profile, script, "method")
    assert main
    assert method
    assert (main.name, main.first_line, [line.hits for line in main.lines]) == ("main", 12, [4, 3])
    assert (method.name, method.first_line, [line.hits for line in method.lines]) == ("Thing.method", 7, [3])
    assert method == line_profile.find(profile, script, "Thing.method")
    assert main.hottest
    assert main.hottest.number == 15
    assert main.share(15) + main.share(14) == pytest.approx(1)
    assert (main.share(15) > 0.9, main.share(1)) == (True, 0)
    assert 0.06 <= method.seconds <= main.seconds < 5
    assert line_profile.find(profile, script, "helper") is None
    assert line_profile.find(profile, script.with_name("other.py"), "main") is None


@pytest.mark.parametrize(
    ("change", "times", "says"),
    [
        (("", ""), (-100, -50), None),
        (("", ""), (-10, -50), "script.py was saved after script.py.lprof was written"),
        (("", ""), (-55, -50), "script.py was saved while the run behind script.py.lprof was under way"),
        (("class Thing", "\nclass Thing"), (-100, -50), "main does not begin in line 12"),
        (("main()", "other()"), (-100, -50), "main does not begin in line 12"),
        (("    for _ in range(3):\n        Thing()", "    if True: Thing()"), (-100, -50), "line 15 of script.py"),
        # What is changed without moving a line shows by the time alone.
        (("range(3)", "range(4)"), (-100, -50), None),
    ],
)
def test_whether_it_is_stale(
    change: tuple[str, str], times: tuple[float, float], says: str | None, placed: Callable[..., tuple[Path, Path]]
) -> None:
    profile, script = placed(SCRIPT.replace(*change), *times)
    main = line_profile.find(profile, script, "main")
    assert main
    why = line_profile.why_stale(profile, main, script, ran_s=20)
    assert why is None if says is None else says in (why or "")


def test_a_script_that_is_no_python_any_more(placed: Callable[..., tuple[Path, Path]]) -> None:
    profile, script = placed("def main(:", -100, -50)
    main = line_profile.find(profile, script, "main")
    assert main
    with pytest.raises(WorkshopError, match=r"script\.py cannot be read as Python"):
        line_profile.why_stale(profile, main, script)


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"\x80\x04N.", b"\x80\x05\x95"])
def test_a_file_that_is_no_line_profile(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.lprof"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WorkshopError, match="kernprof -lv") as caught:
        line_profile.read(path)
    assert "\n" not in str(caught.value)
