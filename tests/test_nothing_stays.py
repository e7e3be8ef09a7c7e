"""What an instrument tries in somebody's script leaves nothing in the script's own objects."""

from pathlib import Path

import pytest

from tests.conftest import Run
from workshop.diagnosis.watched_lines import watched_line
from workshop.probe.cause import Moment
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.messages import AsItIs, FromMemory, KeepBatches, LoadWith, LookCloser, TryCauses, WatchLines
from workshop.probe.trials import causes_at
from workshop.runs.measured_script import staged_script
from workshop.runs.script import run_folder
from workshop.runs.staged_run import StagedRun

SCRIPT = Path(__file__).with_name("stateful_training.py")

OTHER_LOADERS = tuple(LoadWith(LoaderSettings(workers), trial=trial) for trial, workers in enumerate((0, 1, 0, 2)))

TRIALS = tuple(
    TryCauses(tuple(each.name for each in causes_at(moment) if each.name != "torch-compile"))
    for moment in (Moment.CLOSER_LOOK, Moment.WATCHING, Moment.AFTER)
)


LINES = range(1, len(SCRIPT.read_text().splitlines()) + 1)
WATCHED = WatchLines(tuple(filter(None, (watched_line(str(SCRIPT), line) for line in LINES))))


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
        for stage in (LookCloser(), KeepBatches(), FromMemory(), WATCHED, *OTHER_LOADERS, *TRIALS, AsItIs()):
            run.batches["with_workers"] = 0
            run.go_to(stage)
            run.take(20)
            assert not run.ended, (stage, said_of(tmp_path))
            if isinstance(stage, LoadWith):
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
