"""Each instrument takes a notebook where it takes a script: real commands over a training in cells."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from made_notebooks import training, write

from workshop.judge.verdict import Outcome

SLEEPS = {"cell": 4, "cell_ran_as": 15, "line": 6}
"""Where the training waits: in the fourth cell of code, In [15]."""


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("measure notjson.ipynb", 2, "notjson.ipynb is not a notebook: it is no JSON"),
        ("memory notjson.ipynb", 2, "notjson.ipynb is not a notebook: it is no JSON"),
        ("tune r.ipynb", 2, "r.ipynb is a notebook of R, not of Python"),
        ("compare r.ipynb good.ipynb", 2, "r.ipynb is a notebook of R, not of Python"),
        ("record lines -- empty.ipynb", 2, "empty.ipynb has no code cell with anything in it"),
        ("record torch -- colab.ipynb", 2, "cell 1 (In [11]), line 1 of colab.ipynb needs google.colab"),
        ("measure --cells x good.ipynb", 2, "x names no cells; write 1-7,9"),
        ("measure --cells 7 good.ipynb", 2, "good.ipynb has no cell 7; the last one is cell 1"),
        ("measure --cells 5-3 good.ipynb", 2, "5-3 names no cells; write 1-7,9"),
        ("measure --cells 1 train.py", 2, "--cells is for notebooks, and train.py is none; leave it out"),
        ("measure mistake.ipynb", 5, "a syntax error in cell 2 (In [12]), line 3; leave the cell out with --cells"),
        ("record lines -- mistake.ipynb", 5, "a syntax error in cell 2 (In [12]), line 3"),
        ("compare good.ipynb mistake.ipynb", 5, "a syntax error in cell 2 (In [12]), line 3"),
    ],
)
def test_what_is_no_training_is_told_in_a_line(
    command: str, code: int, says: str, workshop: Run, tmp_path: Path
) -> None:
    (tmp_path / "notjson.ipynb").write_text("{")
    write(tmp_path / "r.ipynb", ["x <- 1"], "R")
    write(tmp_path / "empty.ipynb", [""])
    write(tmp_path / "good.ipynb", ["x = 1"])
    write(tmp_path / "colab.ipynb", ["from google.colab import drive"])
    write(tmp_path / "mistake.ipynb", ["x = 1", "%cd x\ny = 1\nz = = 2"])
    done = workshop(*command.split())
    printed = " ".join((done.stdout + done.stderr).replace("│", " ").split())
    assert done.returncode == code
    assert says in printed
    assert "Traceback" not in printed


def as_json(done: Any) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def at(found: dict[str, Any]) -> dict[str, Any]:
    return {name: found.get(name) for name in SLEEPS}


@pytest.mark.slow
def test_measure_names_the_cell_in_every_form(run: Run, tmp_path: Path) -> None:
    path = training(tmp_path / "train.ipynb", steps=4000)
    before = path.read_bytes()
    forms = ["--html", "page.html", "--format", "sarif=found.sarif", "--format", "markdown=found.md"]
    done = run("-m", "workshop", "measure", "--seconds", "2", "--no-headroom", *forms, "--json", "train.ipynb")
    slow = next(each for each in as_json(done)["findings"] if each["cause"] == "slow-item")
    assert at(slow) == SLEEPS
    assert slow["file"] == str(path)
    name = "cell 4 (In [15]), line 6"
    assert f"{name}, in __getitem__" in (tmp_path / "page.html").read_text()
    assert f"`train.ipynb, {name}`" in (tmp_path / "found.md").read_text()
    results = json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"]
    place = next(each for each in results if each["ruleId"] == "slow-item")["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "train.ipynb"
    assert "time.sleep" in path.read_text().splitlines()[place["region"]["startLine"] - 1]
    assert "train.ipynb: not run: cell 1 (In [12]), line 1: !pip install nothing\n" in done.stderr
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"train.ipynb", "page.html", "found.sarif", "found.md"}


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_lines_of_the_cells_are_counted_in_workers(context: str, run: Run, tmp_path: Path) -> None:
    training(tmp_path / "train.ipynb", context, steps=8)
    done = run("-m", "workshop", "record", "lines", "--", "train.ipynb")
    assert done.returncode == 0, done.stderr
    found = as_json(run("-m", "workshop", "lines", "--by", "process", "--json", "train.ipynb.lprof"))
    item = [each for each in found["functions"] if each["function"] == "Numbers.__getitem__"]
    sleeps = [row for each in item for row in each["rows"] if row["line"] == SLEEPS["line"]]
    assert sum(each["hits"] for each in sleeps) == 64
    assert {each["process"] for each in item} == {"worker 0", "worker 1"}
    assert {(each["cell"], each["file"]) for each in item} == {(4, str(tmp_path / "train.ipynb"))}
    assert "Numbers.__getitem__  cell 4 (In [15]), line 5" in run("-m", "workshop", "lines", "--all").stdout


@pytest.mark.slow
def test_memory_names_the_cell_that_holds_it(run: Run, tmp_path: Path) -> None:
    path = training(tmp_path / "train.ipynb", steps=4000)
    done = run("-m", "workshop", "memory", "--seconds", "2", "--no-trials", "--json", "train.ipynb")
    lines = [line for peak in as_json(done)["peaks"] for line in peak["lines"] if line["file"]]
    assert {line["file"] for line in lines} == {str(path)}
    assert (6, 2) in {(line["cell"], line["line"]) for line in lines if line["kind"] == "parameters"}


@pytest.mark.slow
def test_a_notebook_does_the_work_of_itself_and_not_of_one_with_a_fault(run: Run, tmp_path: Path) -> None:
    training(tmp_path / "old.ipynb", steps=8000)
    training(tmp_path / "same.ipynb", steps=8000)
    training(tmp_path / "fault.ipynb", steps=8000, lr=0.02)
    compare = ("-m", "workshop", "compare", "--json", "--budget")
    same = as_json(run(*compare, "20", "old.ipynb", "same.ipynb"))
    assert same["outcome"] in {each.value for each in (Outcome.NOT_YET, Outcome.UNDECIDED, Outcome.DONE)}
    assert same["subject"] == "same.ipynb"
    fault = as_json(run(*compare, "200", "old.ipynb", "fault.ipynb"))  # it ends when the fault is seen
    assert fault["outcome"] == Outcome.OTHER_WORK.value
    assert any("lr is 0.02" in each for each in fault["reasons"])


@pytest.mark.slow
def test_lines_of_traces_are_of_the_cells(run: Run, tmp_path: Path) -> None:
    training(tmp_path / "train.ipynb", steps=40)
    done = run("-m", "workshop", "record", "torch", "--with-stack", "--", "train.ipynb")
    assert done.returncode == 0, done.stderr
    found = as_json(run("-m", "workshop", "trace", "--by", "line", "--json", "prof"))
    assert "cell 6 (In [17]), line 6" in json.dumps(found)
    assert "nn.functional.cross_entropy(model(x), y)" in json.dumps(found)


@pytest.mark.slow
def test_ranks_run_the_cells(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "train.ipynb", ["!pip install nothing\nimport os", "print(os.environ['RANK'])"])
    done = run("-m", "workshop", "torchrun", "--nproc_per_node=2", "train.ipynb")
    assert sorted(done.stdout.split()) == ["0", "1"], done.stderr
    assert done.stderr.count("train.ipynb: not run: cell 1 (In [11]), line 1: !pip install nothing") == 1
