"""The magics in a real kernel: a training in its cells is looked at in a process of its own, and nothing is left."""

import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from made_notebooks import training

from workshop.kernel.command_process import CELL_VARIABLE
from workshop.notebooks.notebook_file import SESSION_FOLDER
from workshop.runs.process_tree import marked

EARLIER = """\
other = nn.Linear(SIZE, 3)
other_optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
for step in range(30):
    other_optimizer.zero_grad()
    other(torch.ones(4, SIZE)).sum().backward()
    other_optimizer.step()
    time.sleep(0.02)
    Numbers()[0]
"""
"""A training that comes before the one that is looked at."""


def cells(steps: int) -> tuple[list[str], str]:
    """The cells of a training before its loop, and the cell of the loop; In [1] is taken."""
    path = training(Path.cwd() / "train.ipynb", steps=steps)
    code = [each for each in json.loads(path.read_text())["cells"] if each["cell_type"] == "code"]
    path.unlink()
    *sources, loop = ("".join(each["source"]) for each in code)
    sources[0] = sources[0].partition("inline\n")[2]  # which needs matplotlib
    return [*sources, EARLIER], loop.replace("%%time\n", "").replace("display(loss)", "")


@pytest.fixture
def ready(kernel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel that has run what comes before the loop, up to In [8]."""
    monkeypatch.chdir(tmp_path)
    for each in cells(8)[0]:
        assert kernel.run(each).error is None
    assert "ZeroDivisionError" in str(kernel.run("1 / 0").error)
    return kernel


def left_of(kernel: Any, tmp_path: Path) -> tuple[list[str], list[str], list[str]]:
    """What runs below the kernel, or bears the mark of a cell, and what the workshop has left in the folder."""
    here = psutil.Process(kernel.manager.provisioner.process.pid)
    below = [" ".join(each.cmdline()) for each in here.children(recursive=True) if each.status() != "zombie"]
    own = str(tmp_path / "tmp" / SESSION_FOLDER)
    return below, [str(each) for each in marked(own)], [each.name for each in (tmp_path / "tmp").glob("workshop-*")]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_measured_begins_with_the_cell(ready: Any, tmp_path: Path) -> None:
    _, loop = cells(4000)
    ran = ready.run(f"%%measure --seconds 2 --no-headroom --html page.html --save kept.json\n{loop}")
    assert ran.error is None
    note, *more = [each["text/plain"] for each in ran.shown]
    assert more == [], "the line of progress is one"
    assert note.startswith("%%measure, In [9]: after In [1], In [2], In [3], In [4] and 3 more")
    assert "1. slow-item  In [5], line 6, in __getitem__" in ran.result["text/plain"]
    assert ran.result["text/html"].startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    values = ready.run("import json; print(json.dumps(_.values))")
    found = json.loads(values.printed)
    slow = next(each for each in found["findings"] if each["cause"] == "slow-item")
    assert (slow["cell"], slow["line"], slow["file"]) == (5, 6, "In [9]")
    assert {each["cell"] for each in found["lines"]} == {5, 9}, "and none of the training before"
    assert "In [5], line 6" in (tmp_path / "page.html").read_text()
    assert json.loads((tmp_path / "kept.json").read_text())["steps"] == found["steps"]
    assert left_of(ready, tmp_path) == ([], [], [])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_lines_are_counted_from_the_cell_on(ready: Any, tmp_path: Path) -> None:
    ran = ready.run(f"%%lines\n{cells(16)[1]}")
    assert ran.error is None, ran
    values = json.loads(ready.run("import json; print(json.dumps(_.values))").printed)
    functions = values["functions"]
    hits = {(each["cell"], row["line"], row["hits"]) for each in functions for row in each["rows"]}
    assert (5, 6, 128) in hits, "two epochs of 64 items, without the 30 before"
    assert (9, 9, 16) in hits
    assert {cell for cell, _, _ in hits} == {5, 9}
    assert "Numbers.__getitem__  In [5], line 5" in ran.result["text/plain"]
    assert left_of(ready, tmp_path) == ([], [], [])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_memory_is_that_of_the_cell(ready: Any, tmp_path: Path) -> None:
    ran = ready.run(f"%%memory --seconds 2 --no-trials\n{cells(4000)[1]}")
    assert ran.error is None, ran
    values = json.loads(ready.run("import json; print(json.dumps(_.values))").printed)
    parameters = {
        (line["cell"], line["line"])
        for peak in values["peaks"]
        for line in peak["lines"]
        if line["file"] and line["kind"] == "parameters"
    }
    assert parameters == {(9, 2)}
    assert left_of(ready, tmp_path) == ([], [], [])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("magic", "until"),
    [
        ("%%measure --seconds 500", "measuring its steps"),
        ("%%measure --html page.html", "starts ("),
        ("%%lines", "it trains"),
        ("%%memory --seconds 500", "watching its memory"),
    ],
)
def test_an_interrupt_leaves_the_kernel_and_nothing_else(magic: str, until: str, ready: Any, tmp_path: Path) -> None:
    loop = cells(40_000)[1].replace("    for x, y", "    print('it trains', flush=True)\n    for x, y")
    number = ready.begin(f"{magic}\n{loop}")
    ready.until_shown(until, number)
    ready.manager.interrupt_kernel()
    ran = ready.end(number)
    seen = "interrupted, with what was seen until then"
    assert ran.error in ([seen], ["interrupted; no step was seen until then"])
    assert not (tmp_path / "page.html").exists() or ran.error == [seen]
    if magic == "%%lines":
        assert "Numbers.__getitem__  In [5], line 5" in ran.shown[-1]["text/plain"]
    assert left_of(ready, tmp_path) == ([], [], [])
    assert ready.run("1 + 1").result == {"text/plain": "2"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_kernel_that_is_killed_takes_its_command_along(ready: Any, tmp_path: Path) -> None:
    number = ready.begin(f"%%measure --seconds 500\n{cells(40_000)[1]}")
    ready.until_shown("measuring its steps", number)
    mark = str(tmp_path / "tmp" / SESSION_FOLDER)
    assert marked(mark)
    psutil.Process(ready.manager.provisioner.process.pid).kill()
    deadline = time.monotonic() + 200
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not marked(mark)
    assert not list((tmp_path / "tmp").glob(f"{SESSION_FOLDER}*"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_goes_wrong_is_told_in_a_line(ready: Any, tmp_path: Path) -> None:
    assert ready.run("%measure nowhere.py").error == [f"{tmp_path}/nowhere.py is not a file; name a Python script"]
    missing = ready.run("%lines nowhere.py")
    assert (missing.printed.strip(), missing.error) == (
        "",
        [f"{tmp_path}/nowhere.py is not a file; name a Python script"],
    )
    crashed = ready.run("%%lines\ny = 1\nraise ValueError('here')")
    assert crashed.error == ["In [11] ended with exit code 1"]
    assert crashed.printed.endswith("ValueError: here\n"), "and nothing of the recorder"
    assert crashed.shown[0]["text/plain"].startswith("%%lines, In [11]: In [11] ended with exit code 1; after In [1]")
    failed = ready.run("%%measure\nraise ValueError('here')")
    assert failed.error == ["workshop measure ended with exit code 5"]
    assert 'File "In [12]", line 2' in " ".join(failed.printed.split())
    assert "ValueError: here" in failed.printed
    assert left_of(ready, tmp_path) == ([], [], [])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_script_is_looked_at_with_values_of_the_kernel(kernel: Any, tmp_path: Path) -> None:
    script = "import sys\ndef add(x):\n    return sum(range(x))\nprint(add(int(sys.argv[1])))\n"
    (tmp_path / "sum.py").write_text(script)
    kernel.run("number = 1000")
    ran = kernel.run("%lines --function add sum.py {number}")
    assert ran.error is None, ran
    assert "add  sum.py:2" in ran.result["text/plain"]
    assert (tmp_path / "sum.py.lprof").is_file(), "as the command leaves it"
    ran = kernel.run("%lines --html page.html -o kept/ -m sum --all 3")
    assert ran.shown[0]["text/plain"] == "%lines -m sum: sum ended with exit code 1"
    assert "ValueError" in ran.printed
    assert "sum.py" in (tmp_path / "page.html").read_text()
    assert [each.name for each in (tmp_path / "kept").iterdir()] == ["sum.lprof"]
    assert CELL_VARIABLE not in kernel.run("import os; print(sorted(os.environ))").printed
