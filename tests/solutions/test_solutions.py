"""The solutions are whole scripts that run as train.py does."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run
from script_runs import run_script

from workshop.pets.layout import stand_in_folder


@pytest.mark.parametrize(
    "part", [pytest.param("part3", marks=pytest.mark.acceptance), pytest.param("part5", marks=pytest.mark.slow)]
)
def test_a_solution_runs_under_kernprof(
    part: str, project: Path, data: Path, write_config: Callable[..., Path], run: Run, tmp_path: Path
) -> None:
    script = project / "solutions" / f"{part}.py"
    done = run("-m", "kernprof", "-l", script, write_config(), "--data", data, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    [metrics] = (tmp_path / "experiments").glob("*/metrics.csv")
    assert len(metrics.read_text().splitlines()) == 1 + 2 * 3  # epochs of three steps


@pytest.mark.filterwarnings("ignore:This DataLoader will create 8 worker processes")
@pytest.mark.slow
def test_part5_reads_nothing_slow_that_it_has_read_before(
    project: Path,
    data: Path,
    write_config: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = stand_in_folder(tmp_path / "datasets")
    shutil.copytree(data / "stand-in", folder.root)
    command = (project / "solutions" / "part5.py", write_config(max_items=20, max_epochs=1), "--device", "cpu")
    assert run_script(*command) == 0
    for path in folder.images.iterdir():
        path.write_bytes(b"?" * path.stat().st_size)  # of the same size, and no picture any more
    assert run_script(*command) == 0, "all is in the cache"
    [cache] = (tmp_path / "cache").iterdir()

    cache.unlink()
    assert run_script(*command) == 2
    assert "cannot be read as a picture" in capfd.readouterr().err
