import json
import os
import resource
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import Run

from workshop import doctor


def test_this_machine_can_run_the_workshop(run: Run, data: Path) -> None:
    checked = run("-m", "workshop", "doctor", "--data", data, "--json")
    rows = {row["name"]: row for row in json.loads(checked.stdout)["rows"]}
    assert checked.returncode == 0, checked.stdout
    assert torch.__version__ in rows["torch"]["found"]
    assert rows["torchvision"]["status"] == "ok"
    assert rows["stand-in"]["found"].startswith("370 trainval, 370 test")
    assert all(row["remedy"] for row in rows.values() if row["status"] == "fail")


@pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux sets them")
def test_a_starved_process_is_told_so(run: Run) -> None:
    def starve() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        os.sched_setaffinity(0, {0})

    rows = {
        row["name"]: row
        for row in json.loads(run("-m", "workshop", "doctor", "--json", preexec_fn=starve).stdout)["rows"]
    }
    assert (rows["open files"]["status"], rows["open files"]["found"]) == ("warn", "at most 256")
    assert rows["cores"]["status"] == "warn"
    assert rows["cores"]["found"].startswith("1 of ")


def test_shared_memory_as_small_as_dockers_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(Path, "is_dir", lambda self: True)
    for free_bytes, status in [(64 * 2**20, "warn"), (511 * 2**20, "warn"), (512 * 2**20, "ok")]:
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free_bytes: SimpleNamespace(free=free))
        assert doctor.check_shared_memory().status == status


@pytest.mark.parametrize("words", ["", "Error: Permission denied\nTry sudo"])
def test_a_py_spy_that_may_not_attach_is_a_warning(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that fails as py-spy does where ptrace is forbidden, with its complaint or without a word."""
    refused = tmp_path / "py-spy"
    refused.write_text(f"#!{sys.executable}\nimport sys\nsys.exit({words!r} or 1)")
    refused.chmod(0o755)
    monkeypatch.setattr(doctor, "find_tool", lambda tool: str(refused))
    row = doctor.check_py_spy()
    assert row.status == "warn"
    assert row.found == "may not attach (ptrace): " + ("Permission denied" if words else "exit code 1")
    assert row.remedy


def test_an_incomplete_set_is_a_failure_with_its_remedy(run: Run, data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "stand-in", tmp_path / "datasets" / "stand-in")
    (tmp_path / "datasets" / "stand-in" / "oxford-iiit-pet" / "images" / "pug_3.jpg").unlink()
    checked = run("-m", "workshop", "doctor")
    assert checked.returncode == 1
    words = " ".join(checked.stdout.split())
    folder = Path("datasets", "stand-in", "oxford-iiit-pet")
    assert f"fail stand-in {folder} is incomplete: 1 missing (images/pug_3.jpg)" in words
    assert f"-> restore it, or delete {folder} and run `workshop data make`" in words


def test_a_torchvision_that_does_not_fit_is_a_failure(run: Run, tmp_path: Path) -> None:
    """A real import of a torchvision that fails as one built for another torch does."""
    broken = tmp_path / "broken"
    (broken / "torchvision").mkdir(parents=True)
    (broken / "torchvision" / "__init__.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    checked = run("-m", "workshop", "doctor", "--json", environment={"PYTHONPATH": str(broken)})
    rows = {row["name"]: row for row in json.loads(checked.stdout)["rows"]}
    assert checked.returncode == 1
    assert (rows["torchvision"]["status"], rows["torch"]["status"]) == ("fail", "ok")
    assert "pip install" in rows["torchvision"]["remedy"]
