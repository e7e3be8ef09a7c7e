"""`workshop check` and `workshop watch`, as a participant types them; what they remember, and leave behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import Run

from workshop.course import checks
from workshop.course.state import State

CHEATS = Path(__file__).parents[1] / "cheats"


@pytest.mark.slow
def test_a_solution_is_done_and_json_says_so(
    workshop: Run, write_config: Callable[..., Path], project: Path, data: Path, tmp_path: Path
) -> None:
    config = write_config(batch_size=19, image_size=48)
    shutil.copy(project / "solutions" / "part6.py", tmp_path / "mine.py")
    options = ["--script", "mine.py", "--config", config, "--data", data, "--device", "cpu"]
    done = workshop("check", "6", *options, "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["schema_version"], verdict["next_part"]) == (2, "part7")
    assert (verdict["speed"], verdict["unraced"]) == (None, "what is asked for was shown without a race")
    assert verdict["reasons"][0].startswith("4 of 4 batches were copied to the device before")
    assert (verdict["subject"], verdict["outcome"], verdict["exit_code"]) == ("part6", "done", 0)
    assert State(tmp_path).get("parts", "part6", "done") is True
    assert {path.name for path in tmp_path.iterdir()} == {".workshop", "mine.py", config.name}


@pytest.mark.slow
def test_other_work_is_refused_before_anything_is_said_about_speed(workshop: Run, data: Path, tmp_path: Path) -> None:
    shutil.copytree(CHEATS / "part3", tmp_path / "cheats")
    done = workshop("check", "part3", "--script", tmp_path / "cheats" / "last_batch_dropped.py", "--data", data)
    assert done.returncode == 3
    assert re.search(
        r"not the same work\n- an epoch trains on (\d+) of \d+ items: the last batch is dropped", done.stdout
    )
    assert "speedup" not in done.stdout.lower()


def running(*words: str) -> list[str]:
    """The command lines that hold one of some words."""
    lines = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(word in line for word in words)]


@pytest.mark.slow
@pytest.mark.parametrize("after", ["starting", "racing"])
def test_ctrl_c_leaves_no_process_and_no_folder(
    after: str, start: Callable[..., subprocess.Popen[str]], project: Path, data: Path, tmp_path: Path
) -> None:
    shutil.copy(project / "solutions" / "part3.py", tmp_path / "train.py")
    temporary = tempfile.mkdtemp(dir="/tmp")
    State(tmp_path).put(4.0, "calibration", f"{checks.machine(None)}, the part's own config", "part3")
    process = start("check", "part3", "--data", data, environment={"TMPDIR": temporary}, process_group=0)
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
    """First a script that breaks, of which the participant's own frames are shown, then the solution."""
    script = tmp_path / "train.py"
    script.write_text((project / "train.py").read_text().replace("model(images)", "model(images[0])"))
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "environment": {"PYTHONUNBUFFERED": "1"}}
    watching = start("watch", "part6", "--data", data, "--device", "cpu", **output)
    stop = threading.Timer(200, watching.kill)
    stop.start()
    assert watching.stdout
    said = []
    for line in watching.stdout:
        said.append(line.strip())
        if line.startswith("watching train.py;") and said.count(line.strip()) == 1:
            script.write_bytes((project / "solutions" / "part6.py").read_bytes())
        elif line.startswith("watching train.py;"):
            time.sleep(2.5)  # nothing more may come
            watching.send_signal(signal.SIGINT)
    stop.cancel()
    assert watching.wait() == 130
    checked = [line.removeprefix("part6: ") for line in said if line.startswith("part6:")]
    assert checked == ["Prefetch to the GPU", "crashed", "Prefetch to the GPU", "done"]
    assert "- train.py crashed: it ended with code 1 before the end of its first epoch" in said
    assert "logits = model(images[0])" in said
    assert not any("site-packages" in line for line in said)
    assert "part6 is finished. Next is part7, From outside:" in said
    assert said[-1] == "stopped by Ctrl-C"
