"""`workshop record lines` over real runs: all processes are counted, without an edit, as one process would be."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import Run
from script_runs import press_ctrl_c, started

from workshop.errors import EXIT_CRASHED
from workshop.profiles import line_change, line_profile, line_tables
from workshop.profiles.line_profile import Function, LineProfile

Left = Callable[[], list[psutil.Process]]
Record = Callable[..., str]

ITEMS, EPOCHS, BATCH, SLEEP_S = 16, 2, 4, 0.02

SCRIPT = f"""\
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

import beside


class Slow(Dataset):
    def __len__(self):
        return {ITEMS}

    def __getitem__(self, index):
        if index % 2:
            index += 1
        time.sleep({SLEEP_S})
        return beside.twice(
            torch.tensor(index)
        )


def main(options):
    loader = DataLoader(Slow(), batch_size={BATCH}, **options)
    thread = threading.Thread(target=beside.in_a_thread)
    thread.start()
    for epoch in range({EPOCHS}):
        for batch in loader:
            assert len(batch) == {BATCH}
    thread.join()
    return loader


if __name__ == "__main__":
    LOADER = main(eval(sys.argv[1]))  # kept: persistent workers are alive to the end
"""

BESIDE = """\
def twice(number):
    return 2 * number


def in_a_thread():
    found = list(map(twice, range(3)))
    assert len(found) == 3
"""

RANKS = """\
import os
import time

import torch.distributed as dist
from torch.utils.data import DataLoader


def load(index):
    if os.environ["RANK"] == "1":
        time.sleep(0.01)
    return index


class Items:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return load(index)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for batch in DataLoader(Items(), num_workers=1):
        pass
    dist.barrier()
    dist.destroy_process_group()
"""

GETITEM_HITS = [ITEMS * EPOCHS, ITEMS * EPOCHS // 2, ITEMS * EPOCHS]
HITS = {"Slow.__getitem__": GETITEM_HITS, "twice": [ITEMS * EPOCHS + 3], "in_a_thread": [1, 1]}

PLAIN = """\
import beside

if __name__ == "__main__":
    beside.in_a_thread()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the scripts."""
    for name, text in {"script": SCRIPT, "beside": BESIDE, "ranks": RANKS, "plain": PLAIN}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.fixture
def record(workshop: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Record]:
    """Record in the folder, and return what `workshop record lines` says; it leaves nothing behind."""
    with tempfile.TemporaryDirectory() as temporary:  # its name must be short: sockets of workers are in it
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setattr(tempfile, "tempdir", temporary)

        def record_lines(*command: str, code: int = 0) -> str:
            done = workshop("record", "lines", *command)
            assert done.returncode == code, done.stderr
            assert list(Path(temporary).glob("workshop*")) == []
            return done.stderr

        yield record_lines


def hits(functions: tuple[Function, ...], name: str) -> list[int]:
    """The hits of each line of a function."""
    return [line.hits for each in functions if each.name == name for line in each.lines]


def check(profile: LineProfile) -> None:
    """The hits are those of a run in one process, and the sleeping line has its time."""
    for name, expected in HITS.items():
        found = hits(profile.functions, name)
        assert [hit for hit, wanted in zip(found, expected, strict=False) if wanted] == [n for n in expected if n], name
    item = next(each for each in profile.functions if each.name == "Slow.__getitem__")
    assert item.hottest
    assert item.hottest.seconds >= ITEMS * EPOCHS * SLEEP_S  # a busy machine sleeps longer


@pytest.mark.parametrize(
    "options",
    [
        "dict(num_workers=2, multiprocessing_context='fork', persistent_workers=True)",
        pytest.param("dict(num_workers=1, multiprocessing_context='spawn')", marks=pytest.mark.slow),
        pytest.param("dict()", marks=pytest.mark.acceptance),
        *(
            pytest.param(
                f"dict(num_workers=2, multiprocessing_context='{method}', persistent_workers={persistent})",
                marks=pytest.mark.acceptance,
            )
            for method, persistent in (("fork", False), ("spawn", True), ("forkserver", True), ("forkserver", False))
        ),
    ],
)
def test_workers_are_counted_as_one_process_would_be(options: str, record: Record, folder: Path) -> None:
    record("--", "script.py", options)
    profile = line_profile.read(folder / "script.py.lprof")
    check(profile)
    assert profile.recorded
    workers = eval(options).get("num_workers", 0)
    assert {*profile.recorded.processes} == {"main process", *(f"worker {number}" for number in range(workers))}
    assert hits(profile.recorded.processes["main process"], "Slow.__getitem__")[:3] == ([] if workers else GETITEM_HITS)
    body = profile.find(folder / "script.py", "<module>")
    assert body
    assert body.lines[-1].hits == 1, "the body of the script is counted, too"


@pytest.mark.parametrize("command", [("-m", "plain"), ("python", "-m", "plain"), ("python", "plain.py")])
def test_any_way_to_start_it(command: tuple[str, ...], record: Record, folder: Path) -> None:
    """Also with a config that is Python."""
    record("--", *command, "beside.py")
    profile = line_profile.read(next(folder.glob("plain*.lprof")))
    assert {name: hits(profile.functions, name) for name in ("in_a_thread", "twice")} == {
        "in_a_thread": [1, 1],
        "twice": [3],
    }


@pytest.mark.slow
def test_ranks(record: Record, folder: Path) -> None:
    torchrun = shutil.which("torchrun") or "torchrun"
    record("--", torchrun, "--standalone", "--nproc_per_node=2", "ranks.py")
    recorded = line_profile.read(folder / "ranks.py.lprof").recorded
    assert recorded
    assert sorted(recorded.processes) == ["rank 0", "rank 0 worker 0", "rank 1", "rank 1 worker 0"]
    found = {name: hits(each, "load") for name, each in recorded.processes.items()}
    assert found == {"rank 0": [], "rank 0 worker 0": [8, 8], "rank 1": [], "rank 1 worker 0": [8, 8, 8]}


def test_only_some_functions_and_the_source_as_it_ran(record: Record, folder: Path) -> None:
    (folder / "edits.py").write_text(
        "def one():\n    return 1\n\ndef two():\n    open(__file__, 'a').write('# new')\none(), two()\n"
    )
    record("--only", "two", "-o", "kept/", "--", "edits.py")
    profile = line_profile.read(folder / "kept" / "edits.py.lprof")
    assert [each.name for each in profile.functions] == ["two"]
    assert (profile.source(folder / "edits.py") or "").endswith("one(), two()\n")
    assert line_profile.why_stale(profile, profile.functions[0], folder / "edits.py")
    printed = subprocess.run(
        [sys.executable, "-m", "line_profiler", str(profile.path)], capture_output=True, text=True, check=True
    ).stdout
    assert "Function: two" in printed


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_counted(folder: Path) -> None:
    (folder / "endless.py").write_text(
        SCRIPT.replace(f"range({EPOCHS})", "range(10**9)").replace(
            "for batch in loader:", "for batch in loader:\n            print('batch', flush=True)"
        )
    )
    command = ("-m", "workshop", "record", "lines", "--", "endless.py", "dict(num_workers=1)")
    with started(folder, *command, ready="batch") as process:
        assert process.stdout
        for _ in range(6):
            assert process.stdout.readline() == "batch\n"
        press_ctrl_c(process)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
    profile = line_profile.read(folder / "endless.py.lprof")
    assert hits(profile.functions, "Slow.__getitem__")[0] >= 6 * BATCH
    assert hits(profile.functions, "main"), "the training process, too"


def test_what_was_counted_is_written_as_a_script_is_terminated(record: Record, folder: Path) -> None:
    """SIGTERM ends it at once, without what is done as Python exits. The line that it is in counts, too."""
    script = """\
import os, signal, time


def main():
    for number in range(7):
        last = number
    dies()


def dies():
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGTERM)


main()
"""
    (folder / "ends.py").write_text(script)
    record("ends.py", code=143)
    profile = line_profile.read(folder / "ends.py.lprof")
    assert hits(profile.functions, "main") == [8, 7, 1]
    assert hits(profile.functions, "dies") == [1, 1]
    (calls_it,) = (line for each in profile.functions if each.name == "main" for line in each.lines if line.hits == 1)
    assert calls_it.seconds >= 0.1


SPAWNS = """\
import signal
import time
import torch
import torch.multiprocessing as mp


def train(rank, together):
    signal.signal(signal.SIGTERM, lambda *_: None)
    model = torch.nn.Linear(2, 1)
    together.wait()
    while True:
        model(torch.ones(1, 2)).sum().backward()
        time.sleep(0.01)


if __name__ == "__main__":
    mp.spawn(train, (mp.get_context("spawn").Barrier(2),), nprocs=2)
"""


@pytest.mark.slow
def test_the_seconds_count_from_the_first_step_and_all_trainers_end(
    workshop: Run, folder: Path, left_running: Left
) -> None:
    """Though the trainers are processes of their own, and do not listen to SIGTERM; what they have counted is kept."""
    (folder / "spawns.py").write_text(SPAWNS)
    done = workshop("record", "lines", "--seconds", "4", "--", "spawns.py")
    assert done.returncode == 0, done.stderr
    assert "the 4 s of --seconds, which begin with its first step, are over" in done.stderr
    recorded = line_profile.read(folder / "spawns.py.lprof").recorded
    assert recorded
    assert sorted(recorded.processes) == ["SpawnProcess-1", "SpawnProcess-2", "main process"]
    for name in ("SpawnProcess-1", "SpawnProcess-2"):
        assert hits(recorded.processes[name], "train")[-1] > 1, name
    assert left_running() == []


def test_whatever_is_not_installed_is_ones_own(record: Record, folder: Path) -> None:
    """A package beside the folder of the script is; an installed one is if it is said so, without what it contains."""
    for place in ("scripts", "site-packages/tool", "site-packages/tool/lib/python3.11"):
        (folder / place).mkdir(parents=True)
    (folder / "site-packages" / "tool" / "lib" / "python3.11" / "deep.py").write_text("def deep(): pass\n")
    (folder / "site-packages" / "tool" / "__init__.py").write_text("def installed():\n    return 1\n")
    (folder / "scripts" / "main.py").write_text(
        "import sys\n"
        "sys.path += ['.', 'site-packages', 'site-packages/tool/lib/python3.11']\n"
        "import beside, deep, tool\nbeside.in_a_thread()\ntool.installed()\n"
    )
    record("--", "scripts/main.py")
    record("--own", "site-packages/tool", "--", "scripts/main.py")
    found = [{each.name for each in line_profile.read(path).functions} for path in sorted(folder.glob("main*.lprof"))]
    own = {"<module>", "in_a_thread", "twice"}
    assert found == [own | {"installed"}, own], "the first one has a number"


ODD = """\
\x0c
import os, subprocess, sys
text = \'\'\'one
two\'\'\'


def counted(who):
    return who


one_line = lambda v: v + \\
    counted(1)
if os.fork() == 0:
    counted("child")
    os._exit(0)
os.wait()
one_line(2)
print(text)
"""


def test_odd_sources_and_processes(record: Record, folder: Path) -> None:
    """A form feed ends no line, a process that ends by `os._exit` is counted, a link leads to the script."""
    (folder / "real").mkdir()
    (folder / "real" / "odd.py").write_bytes(b"\xef\xbb\xbf" + ODD.encode())
    (folder / "link.py").symlink_to(folder / "real" / "odd.py")
    assert "2 processes" in record("--", "link.py")
    profile = line_profile.read(folder / "link.py.lprof")
    assert profile.recorded
    assert sorted(profile.recorded.processes) == ["main process", "process 2"]
    assert hits(profile.functions, "counted") == [2]
    function = profile.find(folder / "link.py", "counted")
    assert function
    assert not line_profile.why_stale(profile, function, folder / "real" / "odd.py"), "with a byte order mark, too"
    texts = {row.first: row.text for table in line_tables.tables(profile)["all processes"] for row in table.rows}
    assert texts[8] == "return who"
    change = line_change.between([profile], [profile])
    assert {row.kind for each in change.functions for row in each.rows} == {"same"}
    assert change.as_dict()["before_s"] == pytest.approx(sum(each.seconds for each in profile.functions))


@pytest.mark.slow
@pytest.mark.parametrize("code", ["1 / 0", "def broken(:", "raise SystemExit(3)"])
def test_a_script_that_fails_says_what_it_says_otherwise(code: str, folder: Path) -> None:
    (folder / "fails.py").write_text(f"import beside\nif beside.twice(1):\n    {code}\n")
    plain = subprocess.run([sys.executable, "fails.py"], cwd=folder, capture_output=True, text=True)
    line = [sys.executable, "-m", "workshop", "record", "lines", "--", "fails.py"]
    counted = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    assert counted.stderr.startswith(plain.stderr)
    assert counted.returncode == (EXIT_CRASHED if "broken" in code else plain.returncode)


@pytest.mark.parametrize(
    ("command", "says", "code"),
    [
        (("--", "nothing.py"), "nothing.py is not a file", 2),
        (("--only", "absent", "--", "beside.py"), "ran no line of absent of your own code", 2),
        (("--", "python", "-c", "1"), "ran no line of your own code", 2),
        (("--", "fails.py"), "fails.py was not run: it cannot be parsed", EXIT_CRASHED),
    ],
)
def test_what_cannot_be_recorded(command: tuple[str, ...], says: str, code: int, record: Record, folder: Path) -> None:
    (folder / "fails.py").write_text("def broken(:\n")
    assert says in record(*command, code=code).replace("\n", " ")


def test_a_script_is_run_as_python_runs_it(folder: Path) -> None:
    (folder / "asks.py").write_text(
        "import sys, pickle, beside\n"
        "class Thing: pass\n"
        "print(sys.argv, sys.path[0], __file__, __name__, __spec__, __doc__, pickle.loads(pickle.dumps(Thing)))\n"
        "print(sorted(name for name in globals() if name.startswith('__')))\n"
    )
    plain = subprocess.run([sys.executable, "asks.py", "x"], cwd=folder, capture_output=True, text=True, check=True)
    line = [sys.executable, "-m", "workshop", "record", "lines", "--", "asks.py", "x"]
    counted = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
    assert counted.stdout == plain.stdout
