"""The edit of a DataLoader's call, in the styles in which people write it."""

import ast
from pathlib import Path

import pytest
from made_notebooks import text, write
from torch.utils.data import DataLoader

from workshop.course.scripts import replace_content
from workshop.notebooks.notebook_file import read
from workshop.probe.loader_settings import LoaderSettings
from workshop.tuning.loader_edit import LoaderEdit, NoEditError, edit

FOUR = LoaderSettings(4, persistent=True)
DATA = list(range(8))


def edited(source: str, path: Path, settings: LoaderSettings = FOUR, present: LoaderSettings | None = None) -> str:
    (path / "mine.py").write_bytes(source.encode())
    line = next(number for number, text in enumerate(source.splitlines(), start=1) if "Loader(" in text)
    return edit(path / "mine.py", line, settings, present or LoaderSettings()).after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(DATA)", "DataLoader(DATA, num_workers=4, persistent_workers=True)"),
        ("DataLoader(DATA, 2, True,)", "DataLoader(DATA, 2, True, num_workers=4, persistent_workers=True,)"),
        ("DataLoader(dataset=DATA, num_workers=0)", "DataLoader(dataset=DATA, num_workers=4, persistent_workers=True)"),
        (
            "DataLoader(DATA, 2, False, None, None, 0, None)",
            "DataLoader(DATA, 2, False, None, None, 4, None, persistent_workers=True)",
        ),
        (
            "DataLoader(DATA, 2, False, None, None, 0, None, True)",
            "DataLoader(DATA, 2, False, None, None, 4, None, False, persistent_workers=True)",
        ),
        (
            "DataLoader(DATA, **MORE)",
            'DataLoader(DATA, **{**MORE, "num_workers": 4, "persistent_workers": True})',
        ),
        (
            "DataLoader(\n    DATA,\n    batch_size=2,  # two\n)",
            "DataLoader(\n    DATA,\n    batch_size=2,  # two\n    num_workers=4,\n    persistent_workers=True,\n)",
        ),
        (
            "DataLoader(\r\n    DATA,\r\n    batch_size=2\r\n)",
            "DataLoader(\r\n    DATA,\r\n    batch_size=2,\r\n    num_workers=4,\r\n    persistent_workers=True\r\n)",
        ),
        (
            "DataLoader(DATA,\n           batch_size=2)",
            "DataLoader(DATA,\n           batch_size=2, num_workers=4, persistent_workers=True)",
        ),
        (
            '"äöü".join(""), DataLoader(DATA)',
            '"äöü".join(""), DataLoader(DATA, num_workers=4, persistent_workers=True)',
        ),
    ],
)
def test_the_style_of_the_call_stays(before: str, after: str, tmp_path: Path) -> None:
    present = LoaderSettings(pin_memory="None, True)" in before)
    assert edited(f"found = ({before})\n", tmp_path, present=present) == f"found = ({after})\n"
    found = eval(after, {"DataLoader": DataLoader, "DATA": DATA, "MORE": {"batch_size": 2}})
    found = found[-1] if isinstance(found, tuple) else found
    assert (found.num_workers, found.persistent_workers) == (4, True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import torch\nloader = DataLoader(DATA)\n",
            "import torch\ntorch.set_num_threads(1)\nloader = DataLoader(DATA, num_workers=1)\n",
        ),
        (
            "import torch as t\r\ndef main():\r\n    for x in DataLoader(\r\n        DATA,\r\n    ):\r\n        0\r\n",
            "import torch as t\r\ndef main():\r\n    t.set_num_threads(1)\r\n    for x in DataLoader(\r\n"
            "        DATA,\r\n        num_workers=1,\r\n    ):\r\n        0\r\n",
        ),
    ],
)
def test_the_number_of_threads_is_set_before_the_loader_is_made(before: str, after: str, tmp_path: Path) -> None:
    assert edited(before, tmp_path, LoaderSettings(1, threads=1)) == after


@pytest.mark.parametrize(
    "source",
    ["loader = DataLoader(DATA)", "import torch\nif True: loader = DataLoader(DATA)", "import torch.nn\nDataLoader(1)"],
)
def test_there_is_not_always_a_place_for_the_number_of_threads(source: str, tmp_path: Path) -> None:
    with pytest.raises(NoEditError, match=r"no place for torch.set_num_threads\(1\) in the script; call it before"):
        edited(source, tmp_path, LoaderSettings(1, threads=1))


def test_what_only_workers_may_have_is_dropped_with_them(tmp_path: Path) -> None:
    present = LoaderSettings(4, prefetch_factor=3, persistent=True)
    source = "DataLoader(DATA, num_workers=n, prefetch_factor=3, persistent_workers=True, timeout=5)"
    after = edited(source, tmp_path, LoaderSettings(0), present)
    found = eval(after, {"DataLoader": DataLoader, "DATA": DATA})
    assert (found.num_workers, found.prefetch_factor, found.persistent_workers) == (0, None, False)
    assert "multiprocessing_context" not in after


def test_what_only_workers_may_have_is_dropped_where_it_has_no_name(tmp_path: Path) -> None:
    source = "DataLoader(DATA, 2, False, None, None, 4, None, False, False, 5, None, 'spawn')"
    after = edited(source, tmp_path, LoaderSettings(0), LoaderSettings(4))
    assert after == "DataLoader(DATA, 2, False, None, None, 0, None, False, False, 0, None, None)"
    assert eval(after, {"DataLoader": DataLoader, "DATA": DATA}).num_workers == 0


@pytest.mark.parametrize(
    ("before", "encoding"),
    [("# as an editor on Windows leaves it\n", "utf-8-sig"), ("# coding: latin-1\n", "latin-1")],
)
def test_the_encoding_of_the_file_stays(before: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(f"{before}'ä', DataLoader(DATA)\n".encode(encoding))
    found = edit(path, 2, LoaderSettings(2), LoaderSettings())
    assert found.content == f"{before}'ä', DataLoader(DATA, num_workers=2)\n".encode(encoding)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("pair = DataLoader(DATA), DataLoader(DATA)", "several DataLoaders are in line 1"),
        ("made = get_Loader (1)\n# Loader(", "no call of DataLoader is in line 2"),
        ("made = DataLoader(", "cannot be read"),
    ],
)
def test_what_cannot_be_edited(source: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(NoEditError, match=why):
        edited(source, tmp_path)


def test_in_the_constructor_of_a_subclass(tmp_path: Path) -> None:
    source = "class Mine(DataLoader):\n    def __init__(self, data):\n        super().__init__(data, batch_size=2)\n"
    (tmp_path / "mine.py").write_text(source)
    after = edit(tmp_path / "mine.py", 3, LoaderSettings(2), LoaderSettings()).after
    assert "super().__init__(data, batch_size=2, num_workers=2)" in after


def test_the_diff_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import torch\nloader = DataLoader(DATA)\nprint(1)\n")
    found = edit(tmp_path / "mine.py", 2, LoaderSettings(2), LoaderSettings())
    assert isinstance(found, LoaderEdit)
    assert [line for line in found.diff if line.startswith(("-", "+"))][2:] == [
        "-loader = DataLoader(DATA)",
        "+loader = DataLoader(DATA, num_workers=2)",
    ]
    assert ast.parse(found.after)


def test_a_cell_of_a_notebook_is_edited_where_it_stands(tmp_path: Path) -> None:
    cells = [
        text("# Data"),
        "x = 1",
        "%cd x\n!pip install a\nloader = DataLoader(DATA)  # all",
        "loader = DataLoader(DATA)",
    ]
    path = write(tmp_path / "train.ipynb", cells)
    before, notebook = path.read_bytes(), read(path)
    made = edit(Path(notebook.file_of(notebook.cells[1])), 3, FOUR, LoaderSettings())
    assert made.file == path
    assert made.diff[:2] == ["--- cell 2 (In [13])", "+++ cell 2 (In [13]), tuned"]
    kept = replace_content(made.file, made.content)
    assert kept is not None
    assert kept.read_bytes() == before
    all_of_it = b"loader = DataLoader(DATA, num_workers=4, persistent_workers=True)  # all"
    assert path.read_bytes() == before.replace(b"loader = DataLoader(DATA)  # all", all_of_it)


def test_what_cannot_be_edited_in_a_cell_is_told_by_its_name(tmp_path: Path) -> None:
    notebook = read(write(tmp_path / "train.ipynb", ["x = 1"]))
    with pytest.raises(NoEditError, match=r"no call of DataLoader is in cell 1 \(In \[11\]\), line 1"):
        edit(Path(notebook.file_of(notebook.cells[0])), 1, FOUR, LoaderSettings())
