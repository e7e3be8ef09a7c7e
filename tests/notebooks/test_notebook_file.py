"""A notebook is read, and edited, as the JSON that it is."""

import json
from pathlib import Path

import pytest
from made_notebooks import cell, text, write

from workshop.errors import WorkshopError
from workshop.notebooks.notebook_file import cell_of, read, with_source


def test_cells_are_code_with_something_in_it(tmp_path: Path) -> None:
    cells = [text("# Title"), cell("x = 1", 12), cell(""), cell("y = 2", metadata={"tags": ["skip-measure"]})]
    notebook = read(write(tmp_path / "train.ipynb", cells))
    assert [(each.number, each.ran_as, each.source, each.tags, each.index) for each in notebook.cells] == [
        (1, 12, "x = 1", (), 1),
        (2, None, "y = 2", ("skip-measure",), 3),
    ]
    assert [each.name for each in notebook.cells] == ["cell 1 (In [12])", "cell 2"]
    file = notebook.file_of(notebook.cells[1])
    assert cell_of(file) == (str(tmp_path / "train.ipynb"), 2)
    assert cell_of(str(tmp_path / "cell 2.py")) is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not a notebook: it is no JSON"),
        ("[]", "is not a notebook: it is JSON without cells"),
        ("[" * 100_000, "is not a notebook: it is no JSON"),
        ('{"cells": [1]}', "is not a notebook: its cells are not as Jupyter writes them"),
        ('{"cells": [], "metadata": null}', "is not a notebook: its cells are not as Jupyter writes them"),
        ('{"worksheets": []}', "has an old format"),
        ('{"cells": []}', "has no code cell with anything in it"),
        (json.dumps({"cells": [cell("")]}), "has no code cell with anything in it"),
        (json.dumps({"cells": [cell("x <- 1")], "metadata": {"kernelspec": {"language": "R"}}}), "is a notebook of R"),
    ],
)
def test_what_cannot_be_run_is_told_in_a_line(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(content)
    with pytest.raises(WorkshopError, match=says) as error:
        read(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids="Unix Windows".split())
def test_an_edit_changes_nothing_but_the_cell(newline: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "train.ipynb", [text("# Ünicode"), "a = 1\nb = 2", "c = 3"])
    before = path.read_bytes().replace(b"\n", newline)
    path.write_bytes(before)
    assert with_source(path, 1, "a = 1\nb = 2") == before
    assert with_source(path, 1, "a = 1\nb = 5") == before.replace(b"b = 2", b"b = 5")


def test_a_source_in_one_text_stays_one(tmp_path: Path) -> None:
    path = write(tmp_path / "train.ipynb", [cell("") | {"source": "a = 1\nb = 2"}])
    assert json.loads(with_source(path, 1, "a = 2"))["cells"][0]["source"] == "a = 2"
