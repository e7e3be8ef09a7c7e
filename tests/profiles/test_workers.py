"""The line profile of `__getitem__` in DataLoader workers, by the real kernprof."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import line_profiler
import pytest

from workshop.profiles import line_profile

ITEMS, EPOCHS, SLEEP_S = 16, 2, 0.01

SCRIPT = f"""
import sys
import time

from workshop.profiles.workers import profile_worker

from line_profiler import profile
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Slow(Dataset):
    def __len__(self):
        return {ITEMS}

    @profile
    def __getitem__(self, index):
        if index % 2:
            index += 1
        time.sleep({SLEEP_S})
        return index


class Stream(IterableDataset):
    @profile
    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for index in range(first, {ITEMS}, step):
            time.sleep({SLEEP_S})
            yield index


@profile
def main(kind, options):
    loader = DataLoader(kind(), batch_size=4, **options)
    for epoch in range({EPOCHS}):
        for batch in loader:
            assert len(batch) == 4
    return loader


if __name__ == "__main__":
    workers = {{"num_workers": 2, "worker_init_fn": profile_worker}}
    LOADER = main(eval(sys.argv[1]), eval(sys.argv[2]))  # kept: persistent workers are alive to the end
"""


FORKED = "dict(workers, multiprocessing_context='fork', persistent_workers=True)"
OTHERS = [FORKED.replace("fork", method) for method in ("spawn", "forkserver")]
OTHERS += [options.replace("True", "False") for options in (FORKED, *OTHERS)]
GETITEM_HITS = [ITEMS * EPOCHS, ITEMS * EPOCHS // 2, ITEMS * EPOCHS, ITEMS * EPOCHS]
MAIN_HITS = [1, EPOCHS + 1, (ITEMS // 4 + 1) * EPOCHS, ITEMS // 4 * EPOCHS, 1]


def run(folder: Path, *command: str, **environment: str) -> str:
    """What a command prints that runs the script in a folder; it leaves no temporary files."""
    (folder / "script.py").write_text(SCRIPT)
    (folder / "temporary").mkdir()
    variables = {**os.environ, "TMPDIR": str(folder / "temporary"), **environment}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list((folder / "temporary").glob("workshop*")) == []
    return done.stdout


def profile(folder: Path, kind: str, options: str) -> Mapping[str, line_profile.Function]:
    """The functions in the line profile of a run, by name."""
    printed = run(folder, "-m", "kernprof", "-lv", "script.py", kind, options)
    functions = {function.name: function for function in line_profile.read(folder / "script.py.lprof").functions}
    for function in functions.values():
        for line in function.lines:
            assert f"{line.number:6} {line.hits:9}" in printed, "the printed table and the file say the same"
    return functions


@pytest.mark.parametrize(
    "options", [FORKED, *(pytest.param(options, marks=pytest.mark.slow) for options in ("{}", *OTHERS))]
)
def test_workers_are_counted_as_the_training_process_would_be(options: str, tmp_path: Path) -> None:
    functions = profile(tmp_path, "Slow", options)
    assert {name: [line.hits for line in function.lines] for name, function in functions.items()} == {
        "Slow.__getitem__": GETITEM_HITS,
        "Stream.__iter__": [],
        "main": MAIN_HITS,  # forked workers start with a copy of it
    }
    hottest = functions["Slow.__getitem__"].hottest
    assert hottest
    assert hottest.seconds >= ITEMS * EPOCHS * SLEEP_S


@pytest.mark.slow
@pytest.mark.parametrize("options", ["{}", "workers"])
def test_a_stream_is_counted_too(options: str, tmp_path: Path) -> None:
    functions = profile(tmp_path, "Stream", options)
    assert [line.hits for line in functions["Stream.__iter__"].lines][-2:] == [ITEMS * EPOCHS] * 2


def test_without_kernprof_it_does_nothing(tmp_path: Path) -> None:
    says = "import os; from workshop.profiles import workers; workers.profile_worker(0); print(sorted(os.environ))"
    assert "WORKSHOP_WORKER_PROFILES" not in run(tmp_path, "-c", says)


@pytest.mark.slow
def test_without_kernprof_workers_load_as_ever(tmp_path: Path) -> None:
    run(tmp_path, "script.py", "Slow", "workers")


def test_with_the_variable_of_line_profiler(tmp_path: Path) -> None:
    run(tmp_path, "script.py", "Slow", "workers", LINE_PROFILE="1")
    stats = line_profiler.load_stats(str(tmp_path / "profile_output.lprof"))
    counted = {name: [hits for _, hits, _ in rows] for (_, _, name), rows in stats.timings.items()}
    assert counted["Slow.__getitem__"] == GETITEM_HITS
