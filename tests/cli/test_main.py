"""The command `workshop` as a whole, and its small commands."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

from conftest import Run


def test_help_loads_nothing_heavy_and_the_console_script_is_the_module(run: Run) -> None:
    code = """
import sys
from workshop.cli.main import main
for arguments in (["data", "status", "--help"], ["data", "--help"], ["--help"]):
    sys.argv = ["workshop", *arguments]
    try:
        main()
    except SystemExit as exit:
        assert exit.code == 0
    print(sorted({"torch", "torchvision", "numpy", "PIL", "nvitop", "rich"} & set(sys.modules)))
"""
    printed = run("-c", code).stdout
    assert printed.count("Usage: workshop") == printed.count("\n[]\n") == 3
    script = Path(sys.executable).with_name("workshop")
    installed = subprocess.run([script, "--help"], capture_output=True, text=True).stdout
    assert installed == printed.split("\n[]\n")[2] + "\n"


def test_what_measures_and_judges_loads_no_torch(run: Run) -> None:
    """Only the scripts need it, and it takes seconds in which nothing would be seen."""
    modules = "workshop.diagnosis.stages, workshop.diagnosis.diagnosis, workshop.judge.bench, workshop.course.checks, "
    modules += "workshop.tuning.tuned_run, workshop.tuning.edit_proof"
    assert run("-c", f"import sys, {modules}; print('torch' in sys.modules)").stdout == "False\n"


def test_a_check_of_a_part_without_a_question_loads_no_traces(run: Run) -> None:
    code = "import sys, workshop.course.checks; print([each for each in sys.modules if 'workshop.traces' in each])"
    assert run("-c", code).stdout == "[]\n"


def test_the_course_is_apart_from_the_instruments(workshop: Run) -> None:
    sections = re.findall(r"^(\S.*):\n((?:  .*\n)+)", workshop("--help").stdout, re.M)
    commands = {title: {line.split()[0] for line in rows.splitlines()} for title, rows in sections}
    assert commands.pop("Options") == {"--help", "-v,", "--version"}
    assert commands == {
        "The course": set(
            "list show hint diff solution start reset restore check watch report join leave doctor data".split()
        ),
        "Instruments, for any training script": set(
            "measure memory tune compare mcp monitor lines py-spy-report flamegraph trace torchrun record".split()
        ),
        "For instructors": {"room"},
        "For authors of parts": {"dev"},
    }


def test_the_version_is_that_of_the_project(workshop: Run, project: Path) -> None:
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]["version"]
    assert workshop("--version").stdout == f"workshop {declared}\n"


def test_data_status_of_nothing_and_of_the_stand_in(workshop: Run, data: Path) -> None:
    nothing = workshop("data", "status")
    assert nothing.returncode == 1
    assert "workshop data download" in nothing.stdout
    assert "workshop data make" in nothing.stdout

    drawn = workshop("data", "status", "--data", data, "--json")
    report = json.loads(drawn.stdout)
    assert (drawn.returncode, report["schema_version"]) == (0, 1)
    states = {each["name"]: each["state"] for each in report["sets"]}
    assert states == {"photos": "absent", "stand-in": "complete"}


def test_a_pipe_gets_commands_in_one_piece_also_where_only_ascii_can_be_shown(run: Run) -> None:
    folder = "a/long/päth" * 20
    narrow_ascii = {"PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    printed = run("-m", "workshop", "data", "status", "--data", folder, environment=narrow_ascii)
    assert (printed.returncode, printed.stderr) == (1, "")
    assert f"workshop data make --data {shlex.quote(folder)}".replace("ä", "\\xe4") in printed.stdout


def test_ctrl_c_says_that_it_stopped(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    drawing = start("data", "make")
    while not list(tmp_path.glob("datasets/.stand-in.partial/oxford-iiit-pet/images/*.jpg")):
        assert drawing.poll() is None
        time.sleep(0.01)
    drawing.send_signal(signal.SIGINT)
    _, errors = drawing.communicate(timeout=60)
    assert drawing.returncode == 130
    assert errors.replace("\r", "\n").splitlines()[-1] == "stopped by Ctrl-C"
    assert "Traceback" not in errors
    assert not list(tmp_path.glob("datasets/*stand-in*/*"))
