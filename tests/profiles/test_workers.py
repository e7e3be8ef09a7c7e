"""The line profile of `__getitem__` in DataLoader workers, by the real kernprof, against the one without workers."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import line_profiler
import pytest
from conftest import Run

from workshop.profiles import lines

ITEMS, EPOCHS, SLEEP_S = 16, 2, 0.1
QUICK = {("fork", False), ("spawn", True)}

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


def profile(folder: Path, kind: str, options: str) -> dict[str, lines.Function]:
    """The functions in the line profile of a run, by name."""
    (folder / "script.py").write_text(SCRIPT)
    temporary = folder / "t"
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "kernprof", "-lv", "script.py", kind, options]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [path for path in temporary.iterdir() if path.name.startswith("workshop")] == []
    functions = {function.name: function for function in lines.read(folder / "script.py.lprof")}
    for function in functions.values():
        for line in function.lines:
            assert f"{line.number:6} {line.hits:9}" in done.stdout, "the printed table and the file say the same"
    return functions


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, lines.Function]:
    """Without workers."""
    return profile(tmp_path_factory.mktemp("alone"), "Slow", "{}")


def hits(function: lines.Function) -> list[tuple[int, int]]:
    return [(line.number, line.hits) for line in function.lines]


@pytest.mark.parametrize(
    ("method", "persistent"),
    [
        pytest.param(method, persistent, marks=() if (method, persistent) in QUICK else pytest.mark.slow)
        for method, persistent in itertools.product(["fork", "spawn", "forkserver"], [False, True])
    ],
)
def test_workers_are_counted_as_the_training_process_would_be(
    method: str, persistent: bool, alone: dict[str, lines.Function], tmp_path: Path
) -> None:
    options = f"dict(workers, multiprocessing_context={method!r}, persistent_workers={persistent})"
    together = profile(tmp_path, "Slow", options)
    assert together.keys() == alone.keys() == {"Slow.__getitem__", "Stream.__iter__", "main"}
    one, many = alone["Slow.__getitem__"], together["Slow.__getitem__"]
    assert hits(many) == hits(one)
    assert many.hottest
    assert one.hottest
    assert many.hottest.hits == ITEMS * EPOCHS
    assert many.hottest.seconds == pytest.approx(one.hottest.seconds, rel=0.05)
    assert together["Stream.__iter__"].lines == ()
    # What the training process counts stays its own; forked workers start with a copy of it.
    assert hits(together["main"]) == hits(alone["main"])


@pytest.mark.slow
def test_a_stream_is_counted_too(tmp_path: Path) -> None:
    alone, together = profile(tmp_path, "Stream", "{}"), profile(tmp_path, "Stream", "workers")
    sleeps = [[line.hits for line in each["Stream.__iter__"].lines][-2:] for each in (alone, together)]
    assert sleeps == [[ITEMS * EPOCHS] * 2] * 2


def test_without_kernprof_it_does_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    temporary = tmp_path / "t"
    temporary.mkdir()
    done = run("script.py", "Slow", "workers", environment={"TMPDIR": str(temporary)})
    assert done.returncode == 0, done.stderr
    assert [path for path in temporary.iterdir() if path.name.startswith("workshop")] == []


def test_with_the_variable_of_line_profiler(run: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run("script.py", "Slow", "workers", environment={"LINE_PROFILE": "1"})
    assert done.returncode == 0, done.stderr
    stats = line_profiler.load_stats(str(tmp_path / "profile_output.lprof"))
    counted = {name: sum(hits for _, hits, _ in rows) for (_, _, name), rows in stats.timings.items()}
    assert counted["Slow.__getitem__"] == ITEMS * EPOCHS * 3 + ITEMS * EPOCHS // 2
