"""The line profile of the slow script, with the real kernprof."""

import csv
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import line_profiler
import pexpect
import pytest
from conftest import Run, ends
from script_runs import press_ctrl_c, started

WAIT = "for images, targets in batches:"


def hottest_line(table: str) -> str:
    """Return the source of the line with the largest share of the time."""
    # number, hits, time, time per hit, share in percent, source
    rows = re.findall(r"^ *\d+ +\d+ +[\d.e+]+ +[\d.e+]+ +([\d.]+) +(\S.*)$", table, re.MULTILINE)
    return max(rows, key=lambda row: float(row[0]))[1]


@pytest.mark.slow
def test_the_wait_for_batches_is_the_hottest_line(
    project: Path, data: Path, write_config: Callable[..., Path], run: Run
) -> None:
    config = write_config(wasted_time=0.1, max_items=16, max_epochs=1)
    profiled = run("-m", "kernprof", "-lv", project / "train.py", config, "--data", data, "--device", "cpu")
    assert profiled.returncode == 0, profiled.stderr
    for table in (profiled.stdout, run("-m", "line_profiler", "train.py.lprof").stdout):
        assert "Function: main at line" in table
        assert hottest_line(table) == WAIT


MISTAKE = """
from line_profiler import profile
from workshop.errors import WorkshopError, plain_errors

@profile
def main():
    pass

with plain_errors():
    raise WorkshopError("a mistake")
"""
ASKED_FOR_HELP = MISTAKE.replace('WorkshopError("a mistake")', "SystemExit(0)")


@pytest.mark.parametrize(
    ("script", "arguments", "code"),
    [
        (MISTAKE, [], 2),
        (ASKED_FOR_HELP, [], 0),
        pytest.param("", ["nowhere.py"], 2, marks=pytest.mark.acceptance),
        pytest.param("", ["--help"], 0, marks=pytest.mark.acceptance),
    ],
)
def test_a_run_that_never_trained_leaves_the_last_profile_alone(
    script: str, arguments: list[str], code: int, project: Path, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(script or (project / "train.py").read_text())
    (tmp_path / "train.py.lprof").write_text("the last profile")
    stopped = run("-m", "kernprof", "-lv", "train.py", *arguments)
    assert stopped.returncode == code
    assert (tmp_path / "train.py.lprof").read_text() == "the last profile"
    assert "Total time" not in stopped.stdout
    assert "Traceback" not in stopped.stderr


@pytest.mark.acceptance
def test_the_first_command_from_nothing(project: Path, run: Run, tmp_path: Path) -> None:
    """The README's first command, without photos: the stand-in is drawn, the model learns, the table is printed."""
    profiled = run("-m", "kernprof", "-lv", project / "train.py", project / "configs" / "example_config.py")
    assert profiled.returncode == 0, profiled.stderr
    assert profiled.stderr.count("Drawing 740 pictures in place of the photos") <= 4, "one line each half a minute"
    assert hottest_line(profiled.stdout) == WAIT
    [metrics] = tmp_path.glob("experiments/*/metrics.csv")
    with open(metrics, newline="") as file:
        second_epoch = [float(row["loss"]) for row in csv.DictReader(file) if row["epoch"] == "1"]
    assert len(second_epoch) == 24
    assert mean(second_epoch) < math.log(37)  # better than a guess among the breeds


WIDE = """
from line_profiler import profile
from workshop.errors import plain_errors

@profile
def main():
    total = sum(number for number in range(100))  # a comment that makes the table ninety-seven columns wide

with plain_errors():
    main()
"""
POINTER = "Too wide for this terminal? workshop lines shows the same figures."


@pytest.mark.parametrize(
    ("flags", "columns", "points"), [("-lv", 80, True), ("-lv", 200, False), ("-l", 80, False), ("", 80, False)]
)
def test_a_narrow_terminal_is_pointed_to_a_table_that_fits(
    flags: str, columns: int, points: bool, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(WIDE)
    command = ["-m", "kernprof", flags, "train.py"] if flags else ["train.py"]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    printed = pexpect.run(
        shlex.join([sys.executable, *command]), cwd=str(tmp_path), env=environment, dimensions=(24, columns)
    ).decode()
    assert ("Function: main at line" in printed) == (flags == "-lv")
    assert printed.count(POINTER) == points
    assert not points or printed.rstrip().endswith(POINTER), "below the table"


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param("", marks=pytest.mark.acceptance),
        pytest.param(", num_workers=2", marks=pytest.mark.slow),
        pytest.param(", num_workers=2, multiprocessing_context='spawn'", marks=pytest.mark.acceptance),
    ],
)
def test_ctrl_c_in_the_middle_of_an_epoch(
    workers: str, project: Path, data: Path, write_config: Callable[..., Path], tmp_path: Path
) -> None:
    text = (project / "train.py").read_text()
    (tmp_path / "train.py").write_text(text.replace("shuffle=True)", f"shuffle=True{workers})"))
    config = write_config(wasted_time=0.05, batch_size=4, max_items=370, max_epochs=10)
    command = ("-m", "kernprof", "-lv", "train.py", config, "--data", data, "--device", "cpu")
    with started(tmp_path, *command) as process:
        while not any(path.read_text().count("\n") > 3 for path in tmp_path.glob("experiments/*/metrics.csv")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        press_ctrl_c(process)
        printed, errors = process.communicate(timeout=60)
        assert ends(process.pid)

    assert process.returncode == 130
    assert "Traceback" not in printed + errors
    assert errors.replace("\r", "\n").splitlines()[-1] == "stopped by Ctrl-C"
    assert "Function: main at line" in printed
    assert "main" in {function for _, _, function in line_profiler.load_stats(tmp_path / "train.py.lprof").timings}
