"""What `workshop doctor` finds on this machine, and on some that suffer."""

import importlib.metadata
import json
import platform
import shutil
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import Run

from workshop.course import doctor
from workshop.recording import py_spy
from workshop.runs.other_load import OtherLoad, Program


def test_this_machine_can_run_the_workshop(workshop: Run, data: Path) -> None:
    checked = workshop("doctor", "--data", data, "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    rows = {row["name"]: row for row in json.loads(checked.stdout)["rows"]}
    assert torch.__version__ in rows["torch"]["found"]
    assert rows["torchvision"]["status"] == "ok"
    assert rows["stand-in"]["found"].startswith("370 trainval, 370 test")
    assert all(row["remedy"] for row in rows.values() if row["status"] == "fail")


@pytest.mark.parametrize(("offline", "says"), [("1", "WORKSHOP_OFFLINE is set"), ("0", "by the first run")])
def test_absent_photos_are_fetched_or_not(
    offline: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKSHOP_OFFLINE", offline)
    photos, stand_in = doctor.check_data(tmp_path)
    assert (photos.status, stand_in.status) == ("ok", "ok")
    assert says in photos.found


def test_a_fault_is_a_failure_with_its_remedy(
    workshop: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture is missing, and torchvision fails as it is imported, as one that was built for another torch does."""
    shutil.copytree(data / "stand-in", tmp_path / "datasets" / "stand-in")
    (tmp_path / "datasets" / "stand-in" / "oxford-iiit-pet" / "images" / "pug_3.jpg").unlink()
    (tmp_path / "torchvision").mkdir()
    complaint = "raise RuntimeError('operator torchvision::nms does not exist')"
    (tmp_path / "torchvision" / "__init__.py").write_text(complaint)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)

    checked = workshop("doctor")
    assert checked.returncode == 1
    words = " ".join(checked.stdout.split())
    folder = Path("datasets", "stand-in", "oxford-iiit-pet")
    assert f"fail stand-in {folder} is incomplete: 1 missing (images/pug_3.jpg)" in words
    assert f"-> restore it, or delete {folder} and run `workshop data make`" in words
    assert "fail torchvision operator torchvision::nms does not exist -> pip install --force-reinstall" in words
    assert "ok torch " in words
    assert words.endswith("2 to fix: marked fail above.")


def test_a_busy_machine_is_told_before_the_first_check() -> None:
    busy = doctor.check_load(OtherLoad(2, 1.4, (Program("python other.py", 7, 140.0),)))
    assert busy.status == "warn"
    assert busy.found.startswith("other programs use 1.4 of 2 cores")
    assert "python other.py" in busy.remedy
    assert doctor.check_load(OtherLoad(2, 0.1)).status == "ok"
    assert doctor.check_load(OtherLoad(2, None)).found == "not known here"


@pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux sets them")
def test_a_starved_process_is_told_so(run: Run) -> None:
    code = """
import os, resource, sys
from workshop.course.doctor import check_cores, check_open_files
os.sched_setaffinity(0, {0})
print(check_cores())
for files, sys.platform in (256, "linux"), (256, "darwin"), (255, "darwin"):
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, 256))
    print(check_open_files().status, check_open_files().found)
"""
    cores, *files = run("-c", code).stdout.splitlines()
    assert files == ["warn at most 256", "ok at most 256", "warn at most 255"]
    assert "status='warn', found='1 of " in cores


def test_what_is_older_or_newer_than_tried_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    bounds = dict(each.split(">=") for each in needed["dependencies"])
    assert {name: oldest for name, (oldest, _) in doctor.TRIED.items()} == bounds | {
        "Python": needed["requires-python"].removeprefix(">=")
    }
    installed = {"torch": "2.16.0+cu130", "torchvision": "0.29.9", "numpy": "1.25.2", "psutil": "5.9.8"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: installed.get(name, doctor.TRIED[name][1]))
    monkeypatch.setattr(platform, "python_version", lambda: "3.13.9")
    newest_torch, newest_numpy = doctor.TRIED["torch"][1], doctor.TRIED["numpy"][1]
    assert [(row.status, row.found) for row in doctor.check_versions()] == [
        ("warn", f"torch 2.16.0+cu130 is newer than what the workshop was tried with (2.5 to {newest_torch})"),
        ("warn", f"numpy 1.25.2 is older than what the workshop was tried with (1.26 to {newest_numpy})"),
    ]


def test_shared_memory_as_small_as_dockers_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(Path, "is_dir", lambda self: True)
    for free_bytes, status in [(64 * 2**20, "warn"), (511 * 2**20, "warn"), (512 * 2**20, "ok")]:
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free_bytes: SimpleNamespace(free=free))
        assert doctor.check_shared_memory().status == status


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (f"#!{sys.executable}\nexit(1)", "may not attach (ptrace): exit code 1"),
        (f"#!{sys.executable}\nexit('Error: No permission\\nTry sudo')", "may not attach (ptrace): No permission"),
        ("\0", "does not run: [Errno 8] Exec format error"),
        (None, "there is no py-spy here"),
    ],
)
def test_a_py_spy_of_no_use_is_a_warning(
    program: str | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails as py-spy does where ptrace is forbidden, with a complaint or without a word; or does not run at all."""
    path = tmp_path / "py-spy"
    path.write_text(program or "")
    path.chmod(0o755)
    monkeypatch.setattr(py_spy, "find_executable", lambda name: program and str(path))
    row = doctor.check_py_spy()
    assert row.status == "warn"
    assert row.found.startswith(found)
    assert row.remedy
