"""The line that nsys would run with, and the ranges that it would show."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from conftest import Run
from script_runs import run_script

from workshop.errors import WorkshopError
from workshop.probe import torch_profiler
from workshop.probe.first_step import STEP
from workshop.probe.hooks import TrainingHooks
from workshop.probe.settings import FIRST_STEP_VARIABLE, NVTX_VARIABLE
from workshop.probe.torch_profiler import mark_phases
from workshop.recording import nsys
from workshop.runs.machine import gpus
from workshop.runs.script import probe_environment

TRAINING = """
import torch
nvtx, ranges = torch.cuda.nvtx, []
nvtx.range_push = ranges.append
nvtx.range_pop = lambda: ranges.append("end")
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.ones(4, 8), batch_size=4):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
print(*ranges, sep=", ")
"""
PHASES = ["data wait", "data wait", "optimizer", "forward", "backward", "optimizer", "data wait"]


@pytest.mark.skipif(shutil.which("nsys") is not None, reason="nsys is here")
def test_without_nsys_the_command_is_printed(workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRAINING)
    done = workshop("record", "nsys", "--run-as", "me", "--", "mine.py", "5")
    assert done.returncode == 2
    assert done.stderr.startswith("there is no nsys here")
    assert done.stdout.startswith("nsys profile --trace=cuda,nvtx")
    assert {"--cuda-memory-usage=true", "--sample=none"} <= set(done.stdout.split())
    assert ("--gpu-metrics-devices=all" in done.stdout) == bool(gpus())
    assert done.stdout.split()[-3:] == [sys.executable, "mine.py", "5"]


FAKE_NSYS = """#!/bin/sh
case "$1 $2" in
"profile --help") echo "  --gpu-metrics-device=";;
profile*) for flag; do case $flag in --output=*) echo raw > "${flag#--output=}.qdstrm";; esac; done; exit 3;;
export*) for last; do :; done; cp "$last" "$7";;
esac
"""
FAKE_IMPORTER = """#!/bin/sh
[ -z "$BROKEN" ] || { echo "cannot read it" >&2; exit 1; }
cp "$2" "${2%.qdstrm}.nsys-rep"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Something that behaves as Debian's nsys 2022.4 does, which leaves a .qdstrm; it was tried by hand."""
    folder = tmp_path / "usr"
    for path, source in (
        (folder / "bin" / "nsys", FAKE_NSYS),
        (folder / "lib" / "nsight-systems" / "host-linux-x64" / "QdstrmImporter", FAKE_IMPORTER),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(source)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    return folder


def test_what_nsys_has_left_is_made_a_report_and_tables(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys, "gpus", lambda: ["one"])
    line, report = nsys.command_line(["mine.py"], "report", "nvtx", "all", "")
    assert "--gpu-metrics-device=all" in line, "as this nsys spells it"
    found = nsys.record(line, report)
    assert (found.exit_code, found.report, found.tables) == (3, Path("report.nsys-rep"), Path("report.sqlite"))
    assert Path("report.sqlite").read_text() == "raw\n"
    assert not Path("report.qdstrm").exists()
    monkeypatch.setattr(nsys, "gpus", list)
    line, report = nsys.command_line(["mine.py"], "report", "nvtx", "all", "")
    assert "--output=report-2" in line
    assert not any("gpu-metrics" in flag for flag in line)
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(WorkshopError, match=r"cannot make a report of report-2\.qdstrm: cannot read it"):
        nsys.record(line, report)
    (installed / "lib" / "nsight-systems" / "host-linux-x64" / "QdstrmImporter").unlink()
    with pytest.raises(WorkshopError, match="QdstrmImporter, which makes a report of that, is not installed here"):
        nsys.record(line, report)
    assert Path("report-2.qdstrm").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nsys") is None, reason="there is no nsys")
def test_a_real_run_is_recorded_and_read(workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        TRAINING.replace("for batch", "for _ in range(3):\n  for batch").replace("\n    ", "\n      ")
    )
    done = workshop("record", "nsys", "--", "mine.py")
    assert done.returncode == 0, done.stderr
    assert "workshop trace nsight_report.sqlite" in done.stderr
    rows = json.loads(workshop("trace", "nsight_report.sqlite", "--tables", "steps", "--json").stdout)["steps"]
    assert len(rows) == 3
    assert all(row["forward(us)"] > 0 for row in rows)


MARKED = ", ".join(f"{phase}, end" for phase in PHASES) + "\n"


def test_phases_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    installed: list[TrainingHooks] = []

    def hooks() -> TrainingHooks:
        installed.append(TrainingHooks())
        return installed[0]

    for name in ("range_push", "range_pop"):
        monkeypatch.setattr(torch.cuda.nvtx, name, None)  # the script has its own
    monkeypatch.setattr(torch_profiler, "TrainingHooks", hooks)
    (tmp_path / "mine.py").write_text(TRAINING)
    mark_phases()
    assert run_script(tmp_path / "mine.py") == 0
    installed[0].remove()
    assert capsys.readouterr().out == MARKED


@pytest.mark.slow
def test_a_training_with_ranges_is_not_disturbed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRAINING)
    asked = {NVTX_VARIABLE: "1", FIRST_STEP_VARIABLE: str(tmp_path)}
    done = run("mine.py", environment=probe_environment() | asked)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / STEP).exists(), "the first step is noted beside, for whoever counts the seconds from it"
    assert done.stdout == MARKED
