"""What an instrument tries in somebody's script leaves nothing in the script's own objects."""

from pathlib import Path

import pytest

from tests.conftest import Run
from workshop.diagnosis.staged_run import StagedRun
from workshop.diagnosis.stages import staged_script
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.messages import SetStage
from workshop.probe.settings import TRIALS_OF_MODEL, TRIALS_OF_OPTIMIZER
from workshop.runs.script import run_folder

SCRIPT = Path(__file__).with_name("stateful_training.py")

OTHER_LOADERS = tuple(SetStage(f"workers {workers}", LoaderSettings(workers)) for workers in (0, 1, 0, 2))

TRIALS = tuple(f"trial {each}" for each in (*TRIALS_OF_OPTIMIZER, *TRIALS_OF_MODEL))


def said_of(folder: Path) -> str:
    """What the script has noted of what must not happen."""
    problems = folder / "problems"
    return problems.read_text() if problems.exists() else ""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_no_stage_leaves_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    monkeypatch.chdir(tmp_path)
    with run_folder() as folder, staged_script(str(SCRIPT), [str(workers)], False, folder) as script:
        run = StagedRun(script)
        run.take(2)
        for stage in ("closer", "keep", "replay", *OTHER_LOADERS, "gradients", *TRIALS, "as it is"):
            run.batches["with_workers"] = 0
            run.go_to(stage)
            run.take(20)
            assert not run.ended, (stage, said_of(tmp_path))
            if isinstance(stage, SetStage):
                assert run.last
                assert not run.last.failure
                assert run.batches["with_workers"] > 0
    assert not said_of(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    "command",
    [
        ["tune", "--budget", "10", SCRIPT],
        ["memory", "--seconds", "3", SCRIPT],
        ["compare", "--budget", "30", SCRIPT, SCRIPT],
    ],
    ids=lambda command: command[0],
)
def test_no_instrument_leaves_anything(workshop: Run, tmp_path: Path, command: list[str], workers: str) -> None:
    done = workshop(*command, workers)
    assert not said_of(tmp_path)
    assert done.returncode in (0, 1, 4), done.stdout  # whatever it has found, or could not find
