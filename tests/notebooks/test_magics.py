"""What of a cell is no Python is replaced, and all other lines stay where they are."""

import ast

import pytest

from workshop.notebooks.magics import as_python


@pytest.mark.parametrize(
    ("source", "python", "skipped"),
    [
        ("x = 1\ny = 2", "x = 1\ny = 2", []),
        ("!pip install a\nx = 1", "pass\nx = 1", [(1, "!pip install a")]),
        ("x = 1\n%cd /tmp\n%env A=1", "x = 1\npass\npass", [(2, "%cd /tmp"), (3, "%env A=1")]),
        ("%matplotlib inline\n%load_ext autoreload\n%autoreload 2", "pass\npass\npass", []),
        ("if x:\n    !pip install a\n", "if x:\n    pass\n", [(2, "!pip install a")]),
        ("!echo don't\n!ls 'a\nx = 1", "pass\npass\nx = 1", [(1, "!echo don't"), (2, "!ls 'a")]),
        ("!pip install \\\n  a \\\n  b\nx = 1", "\n\npass\nx = 1", [(1, "!pip install \\")]),
        ("!run \\\n  --a 1e \\\n  --b x_1:2\nx = 1", "\n\npass\nx = 1", [(1, "!run \\")]),
        ("%time f(x)\n%timeit -n 10 g(x)", "f(x)\ng(x)", []),
        ("%%time\nf(x)", "\nf(x)", []),
        ("%%measure --seconds 2\nf(x)", "\nf(x)", []),
        ("%measure train.py --lr 1\nx = 1", "pass\nx = 1", []),
        ("%%bash\nls\npwd", "\n\n", [(1, "%%bash")]),
        ("# which\n%%time\nf(x)", "# which\npass\nf(x)", []),
        (">>> x = 1\n>>> if x:\n...     y = 2", "x = 1\nif x:\n    y = 2", []),
        ("len?\n??len", "pass\npass", []),
        ('"""\n%cd x\n!ls\n"""', '"""\n%cd x\n!ls\n"""', []),
        ('print("%d"\n% 3)', 'print("%d"\n% 3)', []),
    ],
)
def test_lines_of_ipython_are_replaced(source: str, python: str, skipped: list[tuple[int, str]]) -> None:
    found = as_python(source)
    assert (found.source, list(found.skipped), list(found.takes_value)) == (python, skipped, [])
    ast.parse(found.source)


def test_what_takes_its_value_from_a_shell_is_told() -> None:
    assert as_python("import os\nfiles = !ls").takes_value == [(2, "files = !ls")]


def test_a_mistake_stays_where_it_is() -> None:
    found = as_python("!ls\nx = (1\ny = 2")
    with pytest.raises(SyntaxError) as error:
        ast.parse(found.source)
    assert error.value.lineno == 2
