"""`workshop tune` on scripts that know nothing of it."""

import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from fake_script import STEPS, by_the_clock_of_the_script
from script_runs import press_ctrl_c, started

SLEEPS = """
import time, torch
from torch.utils.data import DataLoader, Dataset

class Stored(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.full((8,), index / 400), index % 3

if __name__ == "__main__":
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Stored(), batch_size=8, shuffle=True)
    for epoch in range(1000):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            time.sleep(0.01)
"""

Found = dict[str, Any]

WRITTEN = {"__pycache__", "checkpoints", "lightning_logs", "trained"}
"""What the scripts themselves may leave in their folder."""


@pytest.fixture
def tuned(workshop: Run, tmp_path: Path) -> Callable[..., Found]:
    """What `workshop tune --json` says of a source; nothing but the script is left in the folder."""

    def tune(source: str, *options: str, seconds: int = 15, arguments: tuple[str, ...] = ()) -> Found:
        (tmp_path / "mine.py").write_text(source)
        done = workshop("tune", "--json", "--budget", str(seconds), *options, "mine.py", *arguments)
        found = json.loads(done.stdout)
        assert done.returncode == {"take": 0, "leave": 0, "not tuned": 2, "undecided": 4}[found["advice"]], done.stderr
        assert {path.name for path in tmp_path.iterdir() if not path.name.startswith("mine")} <= WRITTEN
        return found

    return tune


# A search on the clock of a made-up script, which decides nothing by the time of this machine


SEARCHED = """
if False:
    loader = DataLoader(Stored(), batch_size=4, shuffle=True)
    others = DataLoader(More(), batch_size=4)
made_loader({about})
def loads(settings):
    return {loads}
{loop}:
    step(data_wait=0.08, forward=0.01, loads=loads, kept=1)
"""
BY_WORKERS = "0.08 / max(settings.workers, 1)"


@pytest.fixture
def searched(workshop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Found]:
    """What `workshop tune --json --no-proof` says of a script whose batches take so long with other settings."""
    by_the_clock_of_the_script(monkeypatch)

    def search(loads: str = BY_WORKERS, about: str = "", loop: str = "while True", *options: str) -> Found:
        script = STEPS + SEARCHED.format(loads=loads, about=about, loop=loop)
        (tmp_path / "mine.py").write_text(script)
        done = workshop("tune", "--json", "--no-proof", "--budget", "60", *options, "mine.py")
        found = json.loads(done.stdout)
        code = {"take": 0, "leave": 0, "not tuned": 2, "undecided": 4}[found["advice"]]
        assert done.returncode == (130 if found["interrupted"] and found["edit"] else code), found
        return found | {"source": script}

    return search


def test_workers_for_items_that_wait(searched: Callable[..., Found], tmp_path: Path) -> None:
    found = searched(BY_WORKERS, "", "while True", "--write")
    assert found["advice"] == "take"
    assert found["taken"]["workers"] >= 16
    assert found["speedup"] == pytest.approx(90 / (10 + 80 / found["taken"]["workers"]), rel=0.05)
    assert found["edit"]["line"] == 1 + found["source"].splitlines().index(
        "    loader = DataLoader(Stored(), batch_size=4, shuffle=True)"
    )
    assert f"num_workers={found['taken']['workers']}" in (tmp_path / "mine.py").read_text()
    assert (tmp_path / found["kept"]).read_text() == found["source"]


def test_a_script_that_ends_is_started_again(searched: Callable[..., Found]) -> None:
    assert searched(loop="for _ in range(900)")["taken"]["workers"] >= 4


def test_what_is_in_memory_is_left(searched: Callable[..., Found], tmp_path: Path) -> None:
    found = searched("0.1", loop="while True: step(data_wait=0.0001, forward=0.01, kept=1)\nwhile True")
    assert (found["advice"], found["tried"], found["edit"]) == ("leave", [], None)


def test_where_workers_bring_nothing_it_is_left(searched: Callable[..., Found]) -> None:
    found = searched("0.085")
    assert (found["advice"], found["taken"], found["edit"]) == ("leave", None, None)
    assert len(found["tried"]) > 1


@pytest.mark.parametrize(("asks", "most"), [("", 1), (", shares_out=True", 8), (")\nevents.write(WorkerAsked", 8)])
def test_an_iterable_dataset_gets_workers_only_if_it_asks_for_its_worker(
    asks: str, most: int, searched: Callable[..., Found]
) -> None:
    found = searched(about=f"iterable=True{asks}")
    assert max(each["settings"]["workers"] for each in found["tried"]) >= most
    assert (max(each["settings"]["workers"] for each in found["tried"]) == 1) == (most == 1)
    assert any("does not ask for its worker" in note for note in found["notes"]) == (most == 1)


def test_an_iterable_dataset_that_several_workers_repeat_is_not_tuned(searched: Callable[..., Found]) -> None:
    found = searched(about="iterable=True, settings=LoaderSettings(2)")
    assert found["advice"] == "not tuned"
    assert "every item comes 2 times" in found["reason"]


def test_what_workers_cannot_load(searched: Callable[..., Found]) -> None:
    """The script's workers are spawned, and something cannot be pickled: forked ones can load."""
    spawned = f"'cannot pickle it' if settings.workers and settings.start_method == 'spawn' else {BY_WORKERS}"
    found = searched(spawned, "settings=LoaderSettings(start_method='spawn')")
    assert "cannot pickle it" in {each["why_not"] for each in found["tried"]}
    assert found["taken"]["start_method"] == "fork"
    assert 'multiprocessing_context="fork"' in "\n".join(found["edit"]["diff"])


def test_of_two_loaders_the_one_that_is_waited_for_is_tuned(searched: Callable[..., Found]) -> None:
    found = searched(about=")\nmade_loader('others =', 2")
    lines = found["source"].splitlines()
    assert "loader = DataLoader" in lines[found["edit"]["line"] - 1]
    assert any("Several DataLoaders" in note for note in found["notes"])


def test_what_has_no_loader_is_not_tuned(searched: Callable[..., Found]) -> None:
    found = searched(loop="while True: step(training=0)\nwhile True")
    assert found["advice"] == "not tuned"
    assert "no batches" in found["reason"]


@pytest.mark.parametrize("stage", ["AsItIs", "FromMemory", "LoadWith"])
def test_ctrl_c_ends_it_with_what_is_known(stage: str, searched: Callable[..., Found], tmp_path: Path) -> None:
    """The script presses it as soon as it is told to go to a stage."""
    is_told = f"isinstance(to, {stage}) and getattr(to, 'trial', 2) == 2"
    press = f"[os.kill(os.getppid(), 2), time.sleep(60)] if {is_told} else 0"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if stage == "AsItIs":
            with pytest.raises(json.JSONDecodeError):
                searched(loop=f"while True: {press}; step()\nwhile True")
        else:
            loop = f"while True: {press}; step(data_wait=0.08, forward=0.01, loads=loads, kept=1)\nwhile True"
            found = searched(BY_WORKERS, "", loop, "--write")
            assert found["interrupted"]
            assert any("Stopped by Ctrl-C" in note for note in found["notes"]) == (stage == "LoadWith")
    finally:
        signal.signal(signal.SIGINT, before)
    assert {path.name for path in tmp_path.iterdir()} <= {"mine.py", "__pycache__"}


# Real trainings


@pytest.mark.slow
def test_a_real_training_is_tuned(tuned: Callable[..., Found], monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is: its workers load, and each trial says what it took; few are tried, in much time."""
    monkeypatch.setattr("workshop.tuning.tuned_run.MAX_WORKERS", 2)
    found = tuned(SLEEPS, "--no-proof", seconds=60)
    steps = found["steps"]
    assert (found["present"]["workers"], found["epoch_steps"]) == (0, 50)
    assert found["advice"] in ("take", "leave", "undecided")
    assert steps["samples"] == 8 * steps["count"]
    waits_s = [each["phases_s"]["data wait"] / each["count"] for each in (found["headroom"], steps)]
    assert waits_s[1] > max(waits_s[0], 8 * 0.01), "eight items sleep for 10 ms each"
    with_workers = [each for each in found["tried"] if each["settings"]["workers"]]
    assert {each["settings"]["workers"] for each in with_workers} <= {1, 2}
    measured = [each for each in with_workers if each["blocks_ms"]]
    assert measured
    assert [each["why_not"] for each in with_workers if each["why_not"]] == []
    assert all(each["samples"] == 8 and each["memory_bytes"] > 0 for each in measured)


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """Neither a file nor a process, while workers of a trial load."""
    (tmp_path / "mine.py").write_text(SLEEPS)
    with started(tmp_path, "-m", "workshop", "tune", "--budget", "60", "mine.py") as process:
        assert process.stderr
        assert any("trying num_workers" in line for line in iter(process.stderr.readline, ""))
        press_ctrl_c(process)
        process.communicate(timeout=60)
    assert {path.name for path in tmp_path.iterdir()} <= {"mine.py", "__pycache__"}
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True).stdout
    assert left == ""


@pytest.mark.acceptance
def test_the_edit_is_proven(tuned: Callable[..., Found], tmp_path: Path) -> None:
    found = tuned(SLEEPS, "--write", seconds=60)
    assert found["advice"] == "take"
    assert found["verdict"]["outcome"] == "done", found["verdict"]["reasons"]
    assert found["verdict"]["speed"]["low"] > 1.05
    assert found["taken"]["workers"] >= 2
    assert f"num_workers={found['taken']['workers']}" in (tmp_path / "mine.py").read_text()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.acceptance
def test_an_iterable_dataset_in_a_real_training(tuned: Callable[..., Found]) -> None:
    stream = SLEEPS.replace("Dataset\n", "IterableDataset as Dataset, get_worker_info\n", 1)
    stream = stream.replace("(self):\n        return 400", "(self):\n        return 400\n    ASK", 1)
    head, _, tail = stream.partition("    ASK")
    tail = tail[tail.index("\nif __name__") :]
    body = "    def __iter__(self):\n        QUESTION\n        for index in range(first, 400, step):\n"
    body += "            time.sleep(0.01)\n            yield torch.full((8,), index / 400), index % 3\n"
    source = f"{head}{body}{tail}".replace("batch_size=8, shuffle=True", "batch_size=8")
    asks = "first, step = (w.id, w.num_workers) if (w := get_worker_info()) else (0, 1)"
    found = tuned(source.replace("QUESTION", "first, step = 0, 1"), "--no-proof")
    assert max(each["settings"]["workers"] for each in found["tried"]) == 1
    assert any("does not ask for its worker" in note for note in found["notes"])
    assert tuned(source.replace("QUESTION", asks), "--no-proof")["taken"]["workers"] > 1


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("name", "says"),
    [("with_trainer", "dataloader_num_workers"), ("with_accelerate", "+"), ("with_lightning", "+")],
)
def test_loaders_of_frameworks(name: str, says: str, tuned: Callable[..., Found], project: Path) -> None:
    found = tuned((project / "tests/frameworks" / f"{name}.py").read_text(), "--no-proof", seconds=20)
    assert found["advice"] == "take"
    assert says in (found["why_no_edit"] or "\n".join(found["edit"]["diff"]))
    assert found["taken"]["workers"] > 1


@pytest.mark.acceptance
def test_two_ranks_are_tuned_together(workshop: Run, project: Path) -> None:
    script = project / "tests/frameworks/with_ranks.py"
    done = workshop("tune", "--json", "--budget", "25", "torchrun", "--nproc_per_node=2", script)
    found = json.loads(done.stdout)
    assert found["ranks"] == 2
    assert found["advice"] == "take"
    assert found["taken"]["workers"] > 1
    assert "one process" in found["why_no_proof"]


@pytest.mark.acceptance
@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare")
def test_a_small_shared_memory_is_never_overrun(tmp_path: Path) -> None:
    """Batches of 4 MB and a /dev/shm of 32 MB: more than three workers would not fit."""
    source = SLEEPS.replace("(8,), index / 400)", "(131072,), index / 400)").replace(
        "Linear(8, 3)", "Linear(131072, 3)"
    )
    (tmp_path / "mine.py").write_text(source)
    tune = "python -m workshop tune --json --no-proof --budget 20 mine.py"
    command = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size=32m tmpfs /dev/shm && exec {tune}"]
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no right to mount")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    found = json.loads(done.stdout)
    assert found["advice"] == "take", done.stderr
    assert found["taken"]["workers"] <= 3
    assert any("of /dev/shm" in each["why_not"] for each in found["tried"])
    assert not any("Bus error" in each["why_not"] for each in found["tried"])
