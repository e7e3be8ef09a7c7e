"""`workshop check` and `workshop watch`, as a participant types them; what they remember, and leave behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
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


def test_a_solution_is_done_and_json_says_so(
    workshop: Run, write_config: Callable[..., Path], project: Path, data: Path, tmp_path: Path
) -> None:
    config = write_config(batch_size=19, image_size=48)
    shutil.copy(project / "solutions" / "part6.py", tmp_path / "mine.py")
    options = ["--script", "mine.py", "--config", config, "--data", data, "--device", "cpu"]
    done = workshop("check", "6", *options, "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["schema_version"], verdict["next_part"]) == (1, "part7")
    assert verdict["reasons"][0].startswith("2 of 2 batches were copied to the device before")
    assert (verdict["subject"], verdict["outcome"], verdict["exit_code"]) == ("part6", "done", 0)
    assert State(tmp_path).get("parts", "part6", "done") is True
    assert {path.name for path in tmp_path.iterdir()} == {".workshop", "mine.py", config.name}


@pytest.mark.slow
def test_other_work_is_refused_before_anything_is_said_about_speed(workshop: Run, data: Path, tmp_path: Path) -> None:
    shutil.copytree(CHEATS / "part3", tmp_path / "cheats")
    done = workshop("check", "part3", "--script", tmp_path / "cheats" / "last_batch_dropped.py", "--data", data)
    assert done.returncode == 3
    assert "part3: not the same work\n- an epoch trains on 28 of 31 items: the last batch is dropped" in done.stdout
    assert "times as fast" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name one part, such as part3, or say --all"),
        (["part3", "--all"], "name one part, such as part3, or say --all"),
        (["part99"], "there is no part 'part99'; there are part"),
        (["part3", "--script", "absent.py"], "absent.py; name your script with --script"),
        (["part3", "--config", "absent.py"], "there is no file"),
        (["part2"], "part2 asks: In which line"),
        (["part2", "--json"], "part2 asks: In which line"),
        (["--all"], "part1 asks: While the script trains"),
        (["part1", "--answer", "perhaps"], "'perhaps' is no answer to this; choose one of cpu, gpu, none"),
        (["part3", "--answer", "1"], "part3 asks no question"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, workshop: Run, project: Path, tmp_path: Path) -> None:
    shutil.copy(project / "train.py", tmp_path)
    done = workshop("check", *arguments)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.replace("│", "").split())
    assert "Traceback" not in done.stderr


def running(*words: str) -> list[str]:
    """The command lines that hold one of some words."""
    lines = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(word in line for word in words)]


@pytest.mark.parametrize("after", ["starting", pytest.param("racing", marks=pytest.mark.slow)])
def test_ctrl_c_leaves_nothing_behind(after: str, project: Path, data: Path, tmp_path: Path) -> None:
    """Neither a process nor a folder."""
    shutil.copy(project / "solutions" / "part3.py", tmp_path / "train.py")
    temporary = tempfile.mkdtemp(dir="/tmp")
    State(tmp_path).put(4.0, "calibration", f"{checks.machine(None)}, the part's own config", "part3")
    process = subprocess.Popen(
        [sys.executable, "-m", "workshop", "check", "part3", "--data", data],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": temporary},
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
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_watch_checks_again_and_never_moves_on(project: Path, data: Path, tmp_path: Path) -> None:
    """First a script that breaks, of which the participant's own frames are shown, then the solution."""
    script = tmp_path / "train.py"
    script.write_text((project / "train.py").read_text().replace("model(images)", "model(images[0])"))
    watching = subprocess.Popen(
        [sys.executable, "-m", "workshop", "watch", "part6", "--data", data, "--device", "cpu"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # A shell that starts the tests in the background makes what they start deaf to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    stop = threading.Timer(200, watching.kill)
    stop.start()
    assert watching.stdout
    said = []
    for line in watching.stdout:
        said.append(line.strip())
        if line.startswith("watching") and said.count(line.strip()) == 1:
            script.write_bytes((project / "solutions" / "part6.py").read_bytes())
        elif line.startswith("watching"):
            time.sleep(2.5)  # nothing more may come
            watching.send_signal(signal.SIGINT)
    stop.cancel()
    assert watching.wait() == 130
    assert [line for line in said if line.startswith("part6:")] == [
        "part6: Prefetch to the GPU",
        "part6: broken",
        "part6: Prefetch to the GPU",
        "part6: done",
    ]
    assert "- the script broke: it ended with code 1 before the end of its first epoch" in said
    assert "logits = model(images[0])" in said
    assert not any("site-packages" in line for line in said)
    assert "part6 is finished. Next: part7, From outside: workshop show part7" in said
    assert said[-1] == "stopped by Ctrl-C"
