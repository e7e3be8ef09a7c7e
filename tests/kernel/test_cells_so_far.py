"""Which cells run before the one that is looked at, and the notebook that they make."""

from pathlib import Path
from typing import Any

import pytest

from workshop.kernel.cells_so_far import CellsSoFar, RanCell, write_session
from workshop.notebooks.cell_places import cell_source, place, title, with_cells
from workshop.notebooks.cell_script import choose, notes, start_of
from workshop.notebooks.notebook_file import as_typed, name_of, read


@pytest.fixture
def so_far(shell: Any) -> CellsSoFar:
    found = CellsSoFar(shell)
    found.follow()
    return found


def before(shell: Any, so_far: CellsSoFar, *sources: str, cell: str = "%%measure\ntrain()") -> list[str]:
    for each in sources:
        shell.run_cell(each, store_history=True)
    shell.history_manager.store_inputs(shell.execution_count, cell)
    shell.execution_count += 1
    return [each.source for each in so_far.before(RanCell(so_far.number, cell)) if "load_ext" not in each.source]


def test_what_failed_or_ran_elsewhere_is_left_out(shell: Any, so_far: CellsSoFar, capsys: Any) -> None:
    shell.user_ns["train"] = lambda: None
    shell.magics_manager.magics["cell"]["measure"] = lambda line, cell: None
    shell.magics_manager.magics["cell"]["lines"] = lambda line, cell: None
    ran = ["x = 1", "1 / 0", "x = (", "%%measure\ntrain(1)", "%%lines --here\ntrain(2)", "# nothing", "y = 2"]
    assert before(shell, so_far, *ran) == ["x = 1", "%%lines --here\ntrain(2)", "# nothing", "y = 2"]
    numbers = [each.number for each in so_far.ran()]
    assert numbers == [1, 2, 6, 7, 8], "In [1] has loaded the magics"


def test_the_cell_itself_is_no_earlier_cell(shell: Any, so_far: CellsSoFar) -> None:
    shell.user_ns["train"] = lambda: None
    assert before(shell, so_far, "x = 1", "train()", "%%time\ntrain()", "y = 1") == ["x = 1", "y = 1"]


def test_an_edited_cell_is_no_earlier_cell_where_the_front_end_names_cells(shell: Any, so_far: CellsSoFar) -> None:
    shell.run_cell("lr = 1", store_history=True, cell_id="a")
    shell.run_cell("steps = 10", store_history=True, cell_id="b")
    now: list[RanCell] = []
    shell.user_ns["look"] = lambda: now.extend(so_far.before(RanCell(so_far.number, "%%measure\nsteps = 20")))
    shell.run_cell("look()", store_history=True, cell_id="b")
    assert [each.source for each in now] == ["%load_ext workshop", "lr = 1"]


@pytest.mark.parametrize(
    ("ran", "runs"),
    [
        ("ABTTT", "ABT"),
        ("ABCA", "ABCA"),  # what is new may have changed what A does
        ("ABAB", "ABA"),
        ("ABCBA", "ABCBA"),
    ],
)
def test_a_repeat_runs_again_only_after_something_new(ran: str, runs: str, shell: Any, so_far: CellsSoFar) -> None:
    sources = [f"{each} = 1" for each in ran]
    assert before(shell, so_far, *sources) == [f"{each} = 1" for each in runs]


def test_a_session_names_lines_by_the_numbers_beside_the_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "workshop-session-x").mkdir()
    cells = [RanCell(3, "x = 1"), RanCell(5, "%cd /\ny = 2\nfiles = !ls"), RanCell(9, "%%measure --seconds 2\nz = 3")]
    path = write_session(folder, cells)
    notebook = read(path)
    files = [notebook.file_of(each) for each in notebook.cells]
    assert [place(each, 2) for each in files] == ["In [3], line 2", "In [5], line 2", "In [9], line 2"]
    assert cell_source(files[2]) == "\nz = 3", "its lines are those that people see"
    assert name_of(path) == as_typed(str(path)) == "In [9]"
    assert notes(path) == ["In [9]: not run: In [5], line 3: files = !ls"], "the kernel has changed the folder"
    choose("3")
    try:
        assert notes(path) == ["In [9]: 2 of 3 cells are run"], "the last one always is"
    finally:
        choose("")
    start = Path(start_of(notebook))
    assert f'"folder": "{tmp_path}"' in (start.parent / "cells.json").read_text()
    path.unlink()
    assert title(files[0]) == "In [3]"
    assert with_cells({"file": files[1], "line": 2}) == {"file": "In [9]", "line": 2, "cell": 5, "cell_ran_as": 5}
