import json
import shutil
from pathlib import Path

import torch
from conftest import Run


def test_this_machine_can_run_the_workshop(run: Run, data: Path) -> None:
    checked = run("-m", "workshop", "doctor", "--data", data, "--json")
    rows = {row["name"]: row for row in json.loads(checked.stdout)["rows"]}
    assert checked.returncode == 0, checked.stdout
    assert torch.__version__ in rows["torch"]["found"]
    assert rows["torchvision"]["status"] == "ok"
    assert rows["stand-in"]["found"].startswith("370 trainval, 370 test")
    assert all(row["remedy"] for row in rows.values() if row["status"] != "ok")


def test_an_incomplete_set_is_a_failure_with_its_remedy(run: Run, data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "stand-in", tmp_path / "datasets" / "stand-in")
    (tmp_path / "datasets" / "stand-in" / "oxford-iiit-pet" / "images" / "pug_3.jpg").unlink()
    checked = run("-m", "workshop", "doctor", environment={"COLUMNS": "80"})
    assert checked.returncode == 1
    words = " ".join(checked.stdout.split())
    assert "fail stand-in" in words
    assert "1 missing (images/pug_3.jpg)" in words
    assert "→ move datasets/stand-in/oxford-iiit-pet away or delete it" in words
    assert max(map(len, checked.stdout.splitlines())) <= 80


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
