"""What people call a line, and where it is for formats that know nothing of cells."""

import json
from pathlib import Path

from made_notebooks import cell, text, write

from workshop.notebooks.cell_places import line_in_file, line_of, place, title, with_cells
from workshop.notebooks.notebook_file import read


def test_a_line_of_a_cell_has_its_name_and_one_of_a_file_its_number(tmp_path: Path) -> None:
    notebook = read(write(tmp_path / "train.ipynb", [text("# Title"), "x = 1", "y = 2\nz = 3"]))
    file = notebook.file_of(notebook.cells[1])
    assert place(file, 2) == line_of(file, 2) == "cell 2 (In [13]), line 2"
    assert place(file, None) == "cell 2 (In [13])"
    assert title(file) == f"{tmp_path / 'train.ipynb'}, cell 2 (In [13])"
    assert place("a/train.py", 3) == "train.py:3"
    assert place("a/train.py", 3, path=True) == "a/train.py:3"
    assert line_of("a/train.py", 3) == "line 3 of train.py"
    (tmp_path / "train.ipynb").unlink()
    assert place(file.replace("train", "gone"), 2) == "cell 2, line 2", "a profile outlives its notebook"


def test_json_has_the_notebook_as_the_file(tmp_path: Path) -> None:
    notebook = read(write(tmp_path / "train.ipynb", ["x = 1"]))
    file = notebook.file_of(notebook.cells[0])
    found = with_cells({"lines": [{"file": file, "line": 1}, {"file": "train.py", "line": 2}]})
    of_cell = {"file": str(tmp_path / "train.ipynb"), "line": 1, "cell": 1, "cell_ran_as": 11}
    assert found == {"lines": [of_cell, {"file": "train.py", "line": 2}]}


def test_the_line_of_the_file_is_the_one_with_this_source(tmp_path: Path) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": ["x = 1\n", "for it in y:\n"]}
    cells = [text("x = 1"), cell('x = 1\ny = "ü"', outputs=[output]), "x = 1\nfor it in y:\n    print(it)"]
    path = write(tmp_path / "train.ipynb", cells)
    notebook = read(path)
    lines = path.read_text().splitlines()
    for each in notebook.cells:
        for number, source in enumerate(each.source.splitlines(keepends=True), start=1):
            file, line = line_in_file(notebook.file_of(each), number)
            assert file == str(path)
            assert line is not None
            assert json.loads(lines[line - 1].strip().rstrip(",")) == source
    assert line_in_file(notebook.file_of(notebook.cells[1]), 2)[1] == lines.index('    "for it in y:\\n",') + 1
    path.write_text(json.dumps(json.loads(path.read_text())))
    read(path)
    assert line_in_file(notebook.file_of(notebook.cells[1]), 2) == (str(path), None), "all of it is in one line"
