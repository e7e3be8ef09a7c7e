"""A notebook as a script of its own: run by Python as it is, with nothing of the workshop around it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_notebooks import cell, text, write

from workshop.errors import WorkshopError
from workshop.notebooks.cell_script import choose, notes, runnable


@pytest.fixture(autouse=True)
def all_cells() -> Iterator[None]:
    yield
    choose("")


def output(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *runnable([str(path), *arguments])]
    return subprocess.run(command, capture_output=True, text=True, cwd=path.parents[1], timeout=200)


def test_cells_run_in_order_in_the_folder_of_the_notebook(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'")
    path = write(
        tmp_path / "train.ipynb",
        [
            text("x = 1"),
            "import inspect, os, sys\nimport beside\ndef double(x):\n    return 2 * x",
            "%cd /nowhere\ndisplay(double)\nget_ipython().system('exit 3')",
            "print(os.getcwd(), sys.argv, beside.NAME, __name__, double(4))\nprint(inspect.getsource(double))",
        ],
    )
    done = output(path, "--lr", "3")
    assert done.stderr == ""
    argv = [str(path), "--lr", "3"]
    assert done.stdout == f"{tmp_path} {argv} beside __main__ 8\ndef double(x):\n    return 2 * x\n"
    assert notes(path) == ["train.ipynb: not run: cell 2 (In [13]), line 1: %cd /nowhere"]


SHOWN = """\
import IPython
import IPython.display as shown
from IPython import display as module
from IPython.core.display import HTML
from IPython.display import clear_output, display as function
display(1)
function(2)
IPython.display.display(HTML("3"))
shown.display(shown.Image("4"))
module.clear_output(wait=True)
clear_output()
get_ipython().run_line_magic("matplotlib", "inline")
print("ran")"""


def test_what_is_shown_is_left_out_where_there_is_no_ipython(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['IPython'] = None")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    done = output(write(tmp_path / "train.ipynb", [SHOWN]))
    assert (done.stdout, done.stderr) == ("ran\n", "")


def test_an_error_is_shown_with_its_cell_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "train.ipynb", ["x = 1", "y = 2\n1 / 0  # here"])
    done = output(path)
    assert done.returncode == 1
    assert f'File "{path}/cell 2.py", line 2, in <module>\n    1 / 0  # here' in done.stderr
    assert done.stderr.count('File "') == 1


def test_cells_are_left_out(tmp_path: Path) -> None:
    tagged = cell("print(3)", metadata={"tags": ["skip-measure"]})
    path = write(tmp_path / "train.ipynb", ["print(1)", "print(2)", tagged, "print(4)"])
    choose("2-4")
    assert output(path).stdout == "2\n4\n"
    assert notes(path) == ["train.ipynb: 2 of 4 cells are run"]
    choose("3")
    with pytest.raises(WorkshopError, match=r"no cell of .*train.ipynb is left to run"):
        notes(path)
    with pytest.raises(ValueError, match="a-b"):
        choose("a-b")


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        ("import os\nfrom google.colab import drive", "google.colab"),
        ("import os\nkey = input('key?')", "somebody who types an answer"),
        ("import os\nfiles = !ls", "IPython, which gives it its value"),
    ],
)
def test_what_only_a_front_end_has_is_told_with_its_cell(source: str, needs: str, tmp_path: Path) -> None:
    with pytest.raises(WorkshopError, match=rf"^cell 2 \(In \[12\]\), line 2 of train.ipynb needs {needs}") as error:
        runnable([str(write(tmp_path / "train.ipynb", ["x = 1", source]))])
    assert "\n" not in str(error.value)


def test_a_script_may_ask_whether_there_is_a_front_end(tmp_path: Path) -> None:
    guarded = (
        "try:\n    import google.colab\n    is_colab = True\nexcept ImportError:\n    is_colab = False\nprint(is_colab)"
    )
    assert output(write(tmp_path / "train.ipynb", [guarded])).stdout == "False\n"


def test_only_the_script_of_a_command_is_replaced(tmp_path: Path) -> None:
    path = str(write(tmp_path / "train.ipynb", ["x = 1"]))
    (tmp_path / "train.py").write_text("")
    command = [str(tmp_path / "train.py"), path]
    assert runnable(command) == command
    assert runnable(["-m", "torch.distributed.run", path, "a"])[2] != path


FINDER = """\
class Finder:
    names = names

    def find(self, number):
        return Pair(number, self.names[number]).name"""

PROCESSES = """\
import multiprocessing
import sys
with multiprocessing.get_context("{method}").Pool(1) as pool:
    print(pool.map(look_up, [0, 1]))
print(len(ran))"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_finds_the_functions_of_cells_and_what_these_need(method: str, tmp_path: Path) -> None:
    """Statements that it does not need, such as those that start it, are not run again."""
    cells = [
        "import collections\nran = []\nnames = {}\nfor number in range(2):\n    names[number] = f'name {number}'",
        "Pair = collections.namedtuple('Pair', 'number name')\nran.append('once')",
        FINDER,
        "def look_up(number):\n    return Finder().find(number), number",
        PROCESSES.format(method=method),
    ]
    done = output(write(tmp_path / "train.ipynb", cells))
    assert done.stderr == ""
    assert done.stdout == "[('name 0', 0), ('name 1', 1)]\n1\n"


def test_50_mb_of_outputs_are_no_obstacle(tmp_path: Path) -> None:
    outputs = [{"output_type": "stream", "name": "stdout", "text": ["x" * 99 + "\n"] * 500_000}]
    path = write(tmp_path / "train.ipynb", [cell("print(1)", outputs=outputs)])
    assert path.stat().st_size > 50e6
    assert output(path).stdout == "1\n"
    started = Path(runnable([str(path)])[0])
    assert len(json.loads((started.parent / "cells.json").read_text())["cells"]) == 1
    assert (started.parent / "cells.json").stat().st_size < 1000
