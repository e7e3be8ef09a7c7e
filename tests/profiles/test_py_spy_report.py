"""The rows of the report, held against the two tables that are published for the rules it follows."""

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workshop.profiles import py_spy_report, stacks
from workshop.profiles.code_origin import CodeOrigins
from workshop.profiles.py_spy_report import COLUMNS
from workshop.profiles.stacks import Recording

LATTICE, MNIST = Path(__file__).with_name("published_reports.txt").read_text().split("\n\n")


def recording(table: str, samples: int) -> Recording:
    """Stacks that give a table; what it lacks to all samples falls on places that are too rare for it."""
    lines = []
    for row in table.splitlines()[2:]:
        name, path, line, library, library_path, library_line, proportion = (cell.strip() for cell in row.split("|"))
        frames = ["<module> (run.py:1)", "main (run.py:9)"]
        if library != "Not Found":
            frames.append(f"{library} ({library_path}:{library_line})")
        if path == "built-in":
            path, line = "<frozen importlib._bootstrap>", "241"
        count = int(proportion[proportion.index("(") + 1 : -1])
        samples -= count
        # From two call sites, which --aggregate-leaf-paths makes one row.
        lines += [f"{';'.join([*frames, f'{name} ({path}:{line})'])} {count - 3}\n"]
        lines += [f"{';'.join([frames[0], 'again (run.py:12)', *frames[2:], f'{name} ({path}:{line})'])} 3\n"]
    lines += [f"main (run.py:9);rare{number} (rare.py:1) 1\n" for number in range(samples)]
    return stacks.parse(lines)


@pytest.mark.parametrize(
    ("table", "samples", "library", "modules"), [(LATTICE, 17940, "normflow", True), (MNIST, 14077, "itwinai", False)]
)
def test_the_published_tables(table: str, samples: int, library: str, modules: bool) -> None:
    header, _, *rows = ([cell.strip() for cell in line.split("|")] for line in table.splitlines())
    found = py_spy_report.leaves(recording(table, samples), library, modules=modules).rows[:10]
    assert [[str(row.as_dict()[column]) for column in header] for row in found] == rows
    assert tuple(header) == COLUMNS


STACKS = st.lists(
    st.tuples(st.lists(st.sampled_from("abcde"), max_size=5), st.integers(1, 100)), min_size=1, max_size=10
)


@given(STACKS)
def test_no_sample_is_lost(drawn: list[tuple[list[str], int]]) -> None:
    text = [
        f'process 1:"x";{"".join(f"{name} ({name}.py:1);" for name in names)}<module> (m.py:2) {n}\n'
        for names, n in drawn
    ]
    read = stacks.parse(text)
    for table in (
        py_spy_report.leaves(read, "c.py"),
        py_spy_report.leaves(read, "c.py", aggregate=False),
        py_spy_report.leaves(read, "c.py", modules=True),
        py_spy_report.leaves(read, "c.py", is_user_code=CodeOrigins(read).is_user_code),
    ):
        assert sum(row.samples for row in table.rows) == table.samples
        assert table.samples + table.left_out == read.samples == sum(n for _, n in drawn)
    total = py_spy_report.totals(read, "c.py", modules=True)
    assert max(row.samples for row in total.rows) <= total.samples == read.samples


def test_equal_rows_come_in_one_order() -> None:
    lines = [f"main (train.py:1);{leaf} 5\n" for leaf in ("b (x.py:1)", "a (y.py:2)", "a (x.py:9)")]
    orders = {str(py_spy_report.leaves(stacks.parse(order), "train").rows) for order in permutations(lines)}
    assert len(orders) == 1


def test_total_time_counts_a_recursive_function_once() -> None:
    read = stacks.parse(["main (train.py:1);f (a.py:2);f (a.py:2);g (b.py:3) 10\n", "main (train.py:1) 4\n"])
    rows = py_spy_report.totals(read, "a.py").rows
    assert {row.spot.leaf.name: (row.samples, row.spot.library) for row in rows if row.spot.leaf} == {
        "main": (14, None),
        "f": (10, ("f", "a.py", 2)),
        "g": (10, ("f", "a.py", 2)),
    }


def test_own_code_answers_for_what_it_calls() -> None:
    read = stacks.parse(
        [
            "<module> (train.py:9);main (train.py:5);Module._call_impl (torch/nn/modules/module.py:1);f (models/net.py:7);conv2d (torch/nn/functional.py:3) 6\n",  # noqa: E501
            "<module> (train.py:9);main (train.py:6);backward (torch/_tensor.py:3) 3\n",
            "_bootstrap (threading.py:3);wait (threading.py:30) 1\n",
        ]
    )
    table = py_spy_report.leaves(read, "train.py", is_user_code=CodeOrigins(read).is_user_code)
    found = [(row.as_dict()["name"], row.as_dict()["path"], row.as_dict()["line"], row.samples) for row in table.rows]
    assert found == [
        ("f", "models/net.py", 7, 6),
        ("main", "train.py", 6, 3),
        ("no line of yours on the stack", "", -1, 1),
    ]


def test_what_changed() -> None:
    before = stacks.parse(["main (train.py:1);slow (a.py:2) 90\n", "main (train.py:1);same (a.py:5) 5\n"])
    after = stacks.parse(
        ["main (train.py:3);slow (a.py:4) 10\n", "main (train.py:1);same (a.py:6) 5\n", "new (b.py:1) 20\n"]
    )
    slow, new = (-80, 90, 10, "slow", "a.py"), (20, 0, 20, "new", "b.py")
    assert py_spy_report.changes(before, after) == [slow, new]
    main = (-80, 95, 15, "main", "train.py")
    assert py_spy_report.changes(before, after, total=True) == [main, slow, new]
