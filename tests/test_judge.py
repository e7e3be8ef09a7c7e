"""The commands that judge, as a participant types them; what they remember; what they put back."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import Run

from workshop import judge, progress
from workshop.harness.verdict import Outcome, Speed, Verdict
from workshop.parts import find_part
from workshop.state import State

TESTS = Path(__file__).parent


@pytest.fixture
def check(run: Run, data: Path) -> Callable[..., object]:
    """`workshop check` with the tests' data."""
    return lambda *arguments: run("-m", "workshop", "check", *arguments, "--data", data, "--device", "cpu")


@pytest.mark.slow
def test_the_untouched_script_is_not_there_yet(check: Run, project: Path, tmp_path: Path) -> None:
    shutil.copy(project / "solutions" / "part1.py", tmp_path / "train.py")
    done = check("part6")
    assert done.returncode == 1, done.stderr
    assert "part6: not there yet\n- 0 of 8 batches were copied to the device before" in done.stdout
    assert State(tmp_path).get("parts", "part6", "last") == "not there yet"
    assert not State(tmp_path).get("parts", "part6", "done")


def test_the_solution_is_done_and_json_says_so(check: Run, project: Path, tmp_path: Path) -> None:
    shutil.copy(project / "solutions" / "part6.py", tmp_path / "mine.py")
    done = check("6", "--script", "mine.py", "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["schema_version"] == 1
    assert (verdict["subject"], verdict["outcome"], verdict["exit_code"]) == ("part6", "done", 0)
    assert State(tmp_path).get("parts", "part6", "done") is True
    assert sorted(path.name for path in tmp_path.iterdir()) == [".workshop", "mine.py"], "it writes nothing else here"


def test_other_work_is_refused_before_anything_is_said_about_speed(check: Run, tmp_path: Path) -> None:
    shutil.copytree(TESTS / "cheats" / "part3", tmp_path / "cheats")
    done = check("part3", "--script", tmp_path / "cheats" / "last_batch_dropped.py")
    assert done.returncode == 3
    assert "part3: not the same work\n- an epoch trains on 28 of 31 items: the last batch is dropped" in done.stdout
    assert "times as fast" not in done.stdout


@pytest.mark.slow
def test_a_broken_script_shows_its_own_frames_only(check: Run, project: Path, tmp_path: Path) -> None:
    source = (project / "train.py").read_text()
    (tmp_path / "train.py").write_text(source.replace("logits = model(images)", "logits = model(images[0])"))
    done = check("part3")
    assert done.returncode == 5
    assert "part3: broken\n- the script broke: it ended with code 1 before the end of its first epoch" in done.stdout
    assert "logits = model(images[0])" in done.stdout
    assert "site-packages" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name one part, such as part3, or say --all"),
        (["part3", "--all"], "name one part, such as part3, or say --all"),
        (["part99"], "there is no part 'part99'; there are part"),
        (["part3", "--script", "absent.py"], "absent.py; name your script with --script"),
        (["part3", "--config", "absent.py"], "there is no file"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, check: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    done = check(*arguments)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.replace("│", "").split())


@pytest.mark.parametrize("after", ["starting", pytest.param("racing", marks=pytest.mark.slow)])
def test_ctrl_c_leaves_nothing_behind(after: str, project: Path, data: Path, tmp_path: Path) -> None:
    """Neither a process nor a folder."""
    shutil.copy(project / "solutions" / "part3.py", tmp_path / "train.py")
    temporary = Path(tempfile.mkdtemp(dir="/tmp"))  # short: the path of a socket may not be long
    State(tmp_path).put(4.0, "calibration", f"{judge.machine(None)}, the part's own config", "part3")
    process = subprocess.Popen(
        [sys.executable, "-m", "workshop", "check", "part3", "--data", data],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        # A shell that starts the tests in the background makes what they start deaf to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with process:
        assert process.stderr
        while after not in (line := process.stderr.readline()):
            assert line, process.stdout
        time.sleep(2)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "stopped by Ctrl-C"
    assert list(temporary.iterdir()) == []
    temporary.rmdir()
    running = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    assert not [line for line in running if str(tmp_path) in line]


def test_compare_two_scripts_of_ones_own(run: Run, tmp_path: Path) -> None:
    """With other data than pets, a loss without a module, and arguments of their own."""
    script = """
import sys, time
import torch

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        time.sleep(SLEEP)
        return torch.full((4,), float(index)), torch.tensor([float(index)])

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[2]))
loader = torch.utils.data.DataLoader(Numbers(), batch_size=5, shuffle=True, drop_last=DROP)
while True:
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""
    scripts = {"old": ("0.05", "False"), "new": ("0.001", "False"), "less": ("0.001", "True")}
    for name, (sleep, drop) in scripts.items():
        (tmp_path / f"{name}.py").write_text(script.replace("SLEEP", sleep).replace("DROP", drop))

    done = run("-m", "workshop", "compare", "--json", "old.py", "new.py", "--rate", "1e-3")
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["outcome"], verdict["subject"]) == (0, "done", "new.py"), done.stdout
    assert verdict["speed"]["pairs"] == 3
    assert set(verdict["speed"]["phases_after"]) >= {"data wait", "forward", "backward", "optimizer"}

    done = run("-m", "workshop", "compare", "old.py", "less.py", "--rate", "1e-3")
    assert done.returncode == 3
    assert "less.py: not the same work\n- an epoch trains on 10 of 12 items: the last batch is dropped" in done.stdout


COMMON = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

words = sys.argv[1:]
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 3, 16, 16), torch.randint(0, 5, (64,)))
training, validation = DataLoader(data, 8, shuffle=True), DataLoader(data, 32)
dropout = nn.Dropout(0.3 if "all" in words else 0.0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), dropout, nn.Linear(1568, 5))
groups = [{"params": model[0].parameters(), "lr": 1e-4}, {"params": model[4].parameters()}]
optimizer = torch.optim.AdamW(groups if "all" in words else model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=100_000)
while True:
    with torch.no_grad():
        for inputs, targets in validation:
            model(inputs)
    for inputs, targets in training:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled="all" in words):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        if "all" in words:
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        if "never" not in words:
            optimizer.step()
        if "all" in words:
            scheduler.step()
"""


@pytest.mark.parametrize(
    ("word", "exit_code", "says"),
    [
        pytest.param("plain", 1, "with the same work; asked are 9 times", marks=pytest.mark.slow),
        pytest.param("all", 1, "not compared: the steps themselves", marks=pytest.mark.slow),
        ("never", 2, "mine.py never steps an optimizer"),
    ],
)
def test_a_script_does_the_same_work_as_itself(word: str, exit_code: int, says: str, run: Run, tmp_path: Path) -> None:
    """Whatever is in it: validation, dropout, clipping, a schedule, parameter groups, lower precision."""
    (tmp_path / "mine.py").write_text(COMMON)
    done = run("-m", "workshop", "compare", "--target", "9", "mine.py", "mine.py", word)
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert says in done.stdout + done.stderr


def test_reset_keeps_what_was_there(run: Run, project: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    assert run("-m", "workshop", "reset").returncode == 0
    assert script.read_bytes() == (project / "solutions" / "part1.py").read_bytes()
    assert judge.put(find_part("part1").untouched, script) is None, "an untouched one needs no backup"

    backups = []
    for text in ("mine", "mine, too"):
        script.write_text(text)
        done = run("-m", "workshop", "reset")
        backups = sorted(set(tmp_path.glob("train-*.py")) - set(backups))
        assert any(str(path.name) in done.stdout for path in backups)
    assert {path.read_text() for path in tmp_path.glob("train-*.py")} == {"mine", "mine, too"}
    assert script.read_bytes() == (project / "solutions" / "part1.py").read_bytes()


def test_the_best_speed_is_remembered(tmp_path: Path) -> None:
    state, part = State(tmp_path), find_part("part3")
    for ratio in (2.0, 3.0, 2.5):
        speed = Speed("", 1.0, ratio, ratio, ratio, ratio, 3, 1.5, {}, {}, None, None)
        progress.remember(state, part, Verdict("part3", Outcome.DONE, ("",), speed), b"")
    progress.remember(state, part, Verdict("part3", Outcome.BROKEN, ("",)), b"")
    known = State(tmp_path).get("parts", "part3")
    assert (known["best_ratio"], known["done"], known["last"]) == (3.0, True, "broken")


@pytest.mark.parametrize("damage", ["", "{", "[]", "\x00"])
def test_damaged_state_is_set_aside(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    State(tmp_path).put(1, "a", "b")
    path = tmp_path / ".workshop" / "state.json"
    path.write_text(damage)
    state = State(tmp_path)
    assert state.get("a", "b") is None
    assert "was damaged" in capsys.readouterr().err
    [aside] = path.parent.glob("state-damaged-*.json")
    assert aside.read_text() == damage
    state.put(2, "a", "b")
    assert State(tmp_path).get("a", "b") == 2


def test_state_of_a_later_version_is_kept(tmp_path: Path) -> None:
    path = tmp_path / ".workshop" / "state.json"
    path.parent.mkdir()
    path.write_text('{"schema_version": 7, "new": {"x": 1}, "parts": {"part3": {"new": 2}}}')
    State(tmp_path).put("done", "parts", "part3", "last")
    assert json.loads(path.read_text())["new"] == {"x": 1}
    assert State(tmp_path).get("parts", "part3") == {"new": 2, "last": "done"}
