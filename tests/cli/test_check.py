"""`workshop check` and `workshop watch`, as a participant types them; what they remember, and leave behind."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import Run
from replayed_scripts import Replay, replay

from workshop.course import checks
from workshop.course.state import State


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have recorded evidence judged, in made-up time."""
    evidence = {"part1": "original", "part5": "original"}
    replay(monkeypatch, Replay("part3", evidence, {"part3": 0.3}, copied="ahead"))


@pytest.mark.usefixtures("replayed")
def test_a_solution_is_done_and_json_says_so(workshop: Run, project: Path, data: Path, tmp_path: Path) -> None:
    shutil.copy(project / "solutions" / "part3.py", tmp_path)
    done = workshop("check", "3", "--script", "part3.py", "--data", data, "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["schema_version"], verdict["next_part"]) == (3, "part4")
    assert (verdict["subject"], verdict["outcome"], verdict["exit_code"]) == ("part3", "done", 0)
    assert (verdict["speed"]["ratio"], verdict["speed"]["target"]) == (pytest.approx(1 / 0.3), 1.5)
    assert verdict["unraced"] in (None, "")
    assert State(tmp_path).get("parts", "part3", "done") is True
    assert {path.name for path in tmp_path.iterdir()} == {".workshop", "part3.py"}


@pytest.mark.usefixtures("replayed")
def test_what_is_never_raced_says_nothing_of_a_race(workshop: Run, project: Path, data: Path, tmp_path: Path) -> None:
    shutil.copy(project / "solutions" / "part6.py", tmp_path)
    options = ["--script", "part6.py", "--data", data, "--device", "cpu"]
    verdict = json.loads(workshop("check", "6", *options, "--json").stdout)
    assert (verdict["outcome"], verdict["speed"]) == ("done", None)
    assert (verdict["unraced"], verdict["not_looked_at"]["device"]) == ("", "cpu")
    printed = workshop("check", "6", *options).stdout
    assert "part6: done" in printed
    assert "not looked at on cpu" in printed
    assert "part6 is finished. Next is part7" in printed


@pytest.mark.usefixtures("replayed")
def test_other_work_is_refused_before_anything_is_said_about_speed(workshop: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "last_batch_dropped.py").write_text("this = 'is not run'")
    done = workshop("check", "part3", "--script", "last_batch_dropped.py", "--data", data)
    assert done.returncode == 3
    assert "not the same work\n- an epoch trains on 16 of 23 items: the last batch is dropped" in done.stdout
    assert "speedup" not in done.stdout.lower()


def running(*words: str) -> list[str]:
    """The command lines that hold one of some words."""
    lines = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(word in line for word in words)]


@pytest.mark.parametrize(
    "after", [pytest.param("starting", marks=pytest.mark.acceptance), pytest.param("racing", marks=pytest.mark.slow)]
)
def test_ctrl_c_leaves_no_process_and_no_folder(
    after: str, start: Callable[..., subprocess.Popen[str]], project: Path, data: Path, tmp_path: Path
) -> None:
    shutil.copy(project / "solutions" / "part3.py", tmp_path / "train.py")
    temporary = tempfile.mkdtemp(dir="/tmp")
    State(tmp_path).put(4.0, "calibration", f"{checks.machine(None)}, the part's own config", "part3")
    # torchvision makes the folder of what is compiled
    places = {"TMPDIR": temporary, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")}
    process = start("check", "part3", "--data", data, environment=places, process_group=0)
    with process:
        assert process.stderr
        while after not in (line := process.stderr.readline()):
            assert line, process.stdout
        while len(running(f"{tmp_path}/train.py {temporary}")) < 2:  # it has workers by now
            assert process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "stopped by Ctrl-C"
    assert os.listdir(temporary) == []
    os.rmdir(temporary)
    assert running(str(tmp_path), temporary) == []


@pytest.mark.slow
def test_watch_checks_again_and_never_moves_on(
    start: Callable[..., subprocess.Popen[str]], project: Path, data: Path, tmp_path: Path
) -> None:
    """First a script that breaks, of which the participant's own frames are shown, then the untouched one."""
    script = tmp_path / "train.py"
    untouched = (project / "train.py").read_text()
    script.write_text(untouched.replace("model(images)", "model(images[0])"))
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "environment": {"PYTHONUNBUFFERED": "1"}}
    watching = start("watch", "part6", "--data", data, "--device", "cpu", **output)
    assert watching.stdout
    said = []
    for line in watching.stdout:
        said.append(line.strip())
        if line.startswith("watching train.py;") and said.count(line.strip()) == 1:
            script.write_text(untouched)
        elif line.startswith("watching train.py;"):
            watching.send_signal(signal.SIGINT)
    assert watching.wait() == 130
    checked = [line.removeprefix("part6: ") for line in said if line.startswith("part6:")]
    assert checked == ["Prefetch to the GPU", "crashed", "Prefetch to the GPU", "not there yet"]
    assert "- train.py crashed: it ended with code 1 before the end of its first epoch" in said
    assert "logits = model(images[0])" in said
    assert not any("site-packages" in line for line in said)
    assert said[-1] == "stopped by Ctrl-C"
