"""What cannot be parsed is said at once, by every command that runs a script."""

import sys
from pathlib import Path

import pytest
from conftest import Run

from workshop.runs.script import ScriptError
from workshop.runs.syntax import require_syntax, script_in

BROKEN = "import torch\n\ndef f(:\n    pass\n"


def test_where_the_error_is(tmp_path: Path) -> None:
    script, data = tmp_path / "bad.py", tmp_path / "data.txt"
    for path in (script, data):
        path.write_text(BROKEN)
    with pytest.raises(ScriptError, match="in line 3") as found:
        require_syntax(script)
    assert (found.value.exit_code, found.value.script) == (1, "bad.py")
    assert "def f(:" in found.value.output
    script.write_text("x = '\\d'\n")
    for fine in (script, data, tmp_path / "absent.py", ""):
        require_syntax(fine)


@pytest.mark.parametrize(
    ("command", "has_script"),
    [
        (["bad.py", "--epochs", "3"], True),
        ([sys.executable, "-u", "bad.py"], True),
        (["torchrun", "--nproc_per_node=2", "bad.py"], True),
        (["sh", "run.sh", "bad.py"], False),
        ([sys.executable, "-m", "pytest"], False),
    ],
)
def test_the_script_in_a_command(
    command: list[str], has_script: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(BROKEN)
    assert script_in(command) == "bad.py" * has_script


@pytest.mark.parametrize(
    "words",
    [
        "check part3 --data pictures",
        "check part1 cpu --data pictures",
        "measure train.py",
        "tune train.py",
        "memory train.py",
        "compare fine.py train.py",
        "record lines -- train.py",
        "record torch -- train.py",
        "record py-spy -- python train.py",
    ],
)
def test_it_is_said_before_anything_runs_or_is_drawn(words: str, workshop: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BROKEN)
    (tmp_path / "fine.py").write_text("")
    said = workshop(*words.split())
    assert said.returncode == 5, said.stderr
    assert "a syntax error in line 3" in said.stdout + said.stderr
    assert not {"starting", "waiting", "measuring", "watching"} & set(said.stderr.split())
    assert {path.name for path in tmp_path.iterdir()} <= {"train.py", "fine.py", ".workshop"}
