"""The notebook: executed from top to bottom as somebody would who wants to be shown around."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from cli.test_commands import wrong
from conftest import Run
from nbclient import NotebookClient

from workshop.course import given_cases, notebook
from workshop.course.progress import remember
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.judge.verdict import Outcome, Speed, Verdict
from workshop.parts import all_parts, find_part
from workshop.parts.case import Case

NAME = "profiling_experiment.ipynb"
TAGS = {"colab", "parameters", "measured"}


@pytest.fixture
def cells(project: Path) -> nbformat.NotebookNode:
    return nbformat.read(project / NAME, as_version=4)


def test_nothing_of_a_run_is_kept(cells: nbformat.NotebookNode) -> None:
    nbformat.validate(cells)
    code = [cell for cell in cells.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert set(cells.metadata) == {"kernelspec", "language_info"}
    assert {tag for cell in code for tag in cell.metadata.get("tags", [])} == TAGS


def test_every_part_is_in_it(cells: nbformat.NotebookNode) -> None:
    text = "\n".join(cell.source for cell in cells.cells)
    for part in all_parts():
        assert f"## Part {part.number}: " in text
        assert f"!workshop check {part.name}" in text
    assert "TOUR = False" in text
    for line in re.findall(r"^from workshop.*", text, re.M):
        exec(line)
    assert all(callable(getattr(notebook, name)) for name in re.findall(r"\bnotebook\.(\w+)\(", text))


def test_its_own_code_runs_and_its_commands_get_the_right_answers(
    cells: nbformat.NotebookNode, here: Path, workshop: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands are noted and parsed, and those that only put a script in place are run."""
    import_module("torch")  # which looks for its libraries by the `Popen` that is replaced below
    drawn, typed, ended = [], [], []

    def shell(command: str) -> None:
        assert wrong(command) == "", command
        typed.append(command)
        if shlex.split(command)[1] in ("start", "solution", "reset"):
            assert workshop(*shlex.split(command)[1:]).returncode == 0, command

    for name in ("PATH", "COLUMNS", "WORKSHOP_OFFLINE"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setattr(notebook, "lines", lambda function="main": drawn.append(function))
    training = SimpleNamespace(terminate=lambda: ended.append("training"))
    monkeypatch.setattr("subprocess.Popen", lambda command, **_: typed.append(shlex.join(command)) or training)
    monkeypatch.setattr("time.sleep", lambda _: None)
    commands = {"measure": "measure", "memory": "memory", "lines": "record lines --"}
    looked: list[str] = []

    def magic(name: str, line: str) -> None:
        looked.append(name)
        shell(f"workshop {commands[name]} {line}")

    known = {"shell": shell, "magic": magic}
    for cell in cells.cells:
        if cell.cell_type == "code" and "colab" not in cell.metadata.get("tags", []):
            source = cell.source.replace("TOUR = False", "TOUR = True").replace("%load_ext workshop\n", "")
            source = re.sub(r"^( *)!(.*)$", r"\1shell(f'''\2''')", source, flags=re.M)
            exec(re.sub(r"^%(\w+) (.*)$", r"magic('\1', f'''\2''')", source, flags=re.M), known)
    assert looked == ["lines", "measure", "memory"]
    assert (drawn, ended) == (["main", "__getitem__"], ["training"])
    answered = dict(re.findall(r'^workshop check (\w+) --answer "(.+)"$', "\n".join(typed), re.M))
    assert answered.keys() == {part.name for part in all_parts() if part.question}
    case = given_cases.given(find_part("part11"), State(here))
    assert isinstance(case, Case)
    assert answered["part11"] == f"{min(case.right_lines(case.untouched))}:{case.cause}"
    assert (answered["part1"], answered["part8"]) == ("none", "data")


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_it_runs_from_top_to_bottom(cells: nbformat.NotebookNode, project: Path, data: Path, tmp_path: Path) -> None:
    for name in ("configs", "solutions"):
        shutil.copytree(project / name, tmp_path / name)
    shutil.copy(project / "train.py", tmp_path)
    shutil.copytree(data, tmp_path / "datasets")
    ranks = tmp_path / "configs" / "bad_node_config.py"
    ranks.write_text(
        re.sub(r"max_items=\d+", "max_items=96", ranks.read_text()).replace("max_epochs=2", "max_epochs=1")
    )
    # What needs Colab is left out. So are the checks of scripts, which take minutes and which test_selftest.py and
    # test_path.py prove, and the cells that draw what those checks measured.
    cells.cells = [cell for cell in cells.cells if not {"colab", "measured"} & set(cell.metadata.get("tags", []))]
    checks = "|".join(part.name for part in all_parts() if part.change)
    for cell in cells.cells:
        cell.source = re.sub(rf"^!workshop check ({checks})\b.*$", "", cell.source, flags=re.M)
        cell.source = cell.source.replace("TOUR = False", "TOUR = True").replace("time.sleep(30)", "time.sleep(5)")
        cell.source = cell.source.replace("%measure", "%measure --seconds 3")
    NotebookClient(cells, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = "\n\n".join(
        f"{cell.source}\n{''.join(out.get('text', '') for out in cell.outputs)}"
        for cell in cells.cells
        if cell.cell_type == "code"
    )
    state = State(tmp_path)
    for part in all_parts():
        assert part.change or state.get("parts", part.name, "last") == "done", said
    shown = {magic: _shown_by(cells, magic) for magic in ("%lines", "%measure", "%memory")}
    assert all("<iframe" in bundle["text/html"] and bundle["text/plain"] for bundle in shown.values())
    assert "Traceback" not in said
    assert "Usage: " not in said


def _shown_by(cells: nbformat.NotebookNode, magic: str) -> Any:
    """What the cell with a magic has shown as its result."""
    (cell,) = (each for each in cells.cells if each.cell_type == "code" and f"\n{magic} " in f"\n{each.source}")
    (result,) = (each for each in cell.outputs if each.output_type == "execute_result")
    return result.data


@pytest.fixture
def here(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(project / "train.py", tmp_path)
    return tmp_path


def test_pictures_of_what_was_measured(here: Path) -> None:
    phases = {"data wait": 3.0, "forward": 1.0}
    speed = Speed(
        "untouched", "train.py", 8.0, 16.0, 2.0, 1.9, 2.1, 3, 1.5, phases, phases | {"data wait": 1.0}, None, 3.0
    )
    verdict = Verdict("part3", Outcome.DONE, ("2.00 times",), speed)
    remember(State(here), find_part("part3"), verdict, b"mine")
    drawn = notebook.phases("part3")._repr_html_()
    assert drawn.count("<tr>") == 1 + 2 * len(phases)
    assert "speedup 2.00x" in drawn
    assert "width:180px" in drawn, "the longest one"
    assert "width:60px" in drawn, "a third of it"
    assert "2.0x" in notebook.speed_ups()._repr_html_()
    State(here).put({"last": "not there yet", "state": "half done"}, "parts", "part10")
    assert "half done" in notebook.speed_ups()._repr_html_()
    never = notebook.phases("part5")._repr_html_()
    assert never == "<p>no check of part5 has measured its speed yet: !workshop check part5</p>"


def test_the_hottest_line_is_marked(here: Path) -> None:
    body = "@profile\ndef main():\n    time.sleep(0.001)\n    time.sleep(0.1)\n\nmain()\n"
    (here / "train.py").write_text(f"import time\nfrom line_profiler import profile\n\n{body}")
    with pytest.raises(WorkshopError):
        notebook.lines()
    subprocess.run([sys.executable, "-m", "kernprof", "-l", "train.py"], cwd=here, env=dict(os.environ), check=True)
    drawn = notebook.lines()._repr_html_()
    hot = [row for row in drawn.split("<tr") if "--heat:0.9" in row]
    assert len(hot) == 1
    assert "time.sleep(0.1)" in hot[0]
    assert "<td>4</td>" in drawn, "the whole function, also what took no time"


def test_a_function_that_workers_ran_is_no_error(here: Path) -> None:
    (here / "train.py").write_text("from line_profiler import profile\n@profile\ndef load():\n    pass\n")
    subprocess.run([sys.executable, "-m", "kernprof", "-l", "train.py"], cwd=here, env=dict(os.environ), check=True)
    assert "<p>load has 0 hits in train.py.lprof: " in notebook.lines(function="load")._repr_html_()
