"""Statements over several lines: one row each, with the hits and the time that they really have."""

import sys

import pytest

from workshop.profiles import line_profile
from workshop.profiles.line_tables import TOGETHER, tables
from workshop.profiles.statements import Row, Source
from workshop.recording import line_recorder

SCRIPT = """\
import contextlib
import time

class Number(float):
    def root(self):
        return Number(self**0.5)

def slow(number, scale=1.0):
    time.sleep(0.05)
    return Number(number * scale)


def step(model, images, flag):
    loss = model(
        images,
        scale=float(
            2.0
        ),  # a comment
    )
    found = [
        float(each)
        for each in range(3)
    ]
    chain = (
        loss.root()
        .root()
        .root()
    )
    if (
        flag
        and chain > 0
    ):
        chain = chain + 1
    for number, each in zip(
        range(3),
        found,
    ):
        chain = chain + number
    with contextlib.suppress(ValueError), \\
            contextlib.nullcontext():
        abs(chain)
    try:
        chain = max(
            chain,
            loss.root(),
        )
    finally:
        total = sum(
            found,
            start=0.0,
        )
    first = "one"; second = [
        total,
    ]
    return (
        chain
    )


for turn in range(4):
    step(slow, Number(5), turn % 2)
"""

ROWS = {
    (14, 19): "loss = model(images, scale=float(2.0))",
    (20, 23): "found = [float(each) for each in range(3)]",
    (24, 28): "chain = (loss.root().root().root())",
    (29, 32): "if (flag and chain > 0):",
    (43, 46): "chain = max(chain, loss.root())",
    (48, 51): "total = sum(found, start=0.0)",
    (52, 54): 'first = "one"; second = [total]',
    (55, 57): "return (chain)",
}
"""What is one statement, and how it reads in one line."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], Row]:
    """The rows of `step` in a real profile, by their first and last lines."""
    script = tmp_path_factory.mktemp("statements") / "script.py"
    script.write_text(SCRIPT)
    profile = line_profile.read(line_recorder.record([str(script)], str(script.with_suffix(".lprof"))).path)
    return {(row.first, row.last): row for row in tables(profile, name="step")[TOGETHER][0].rows}


def test_each_is_a_row_with_the_hits_of_the_statement(rows: dict[tuple[int, int], Row]) -> None:
    assert {place: row.text for place, row in rows.items() if place in ROWS} == ROWS
    hits = {place: row.hits for place, row in rows.items() if place in ROWS}
    if sys.version_info >= (3, 12):  # a comprehension is no function any more: its first line has more hits
        assert hits.pop((20, 23)) >= 4
    assert hits == dict.fromkeys(hits, 4)
    assert 4 * (3 + 1) <= rows[34, 37].hits <= 4 * (3 + 2), "the head of a loop has the hits of its turns"


def test_a_call_over_several_lines_has_its_time(rows: dict[tuple[int, int], Row]) -> None:
    assert rows[14, 19].seconds >= 4 * 0.05


def test_what_is_no_python_has_lines() -> None:
    assert Source("def broken(:\n").statements == {}
    assert Source(None).text(3, 3) == ""
    assert Source("x = (1,\n").text(1, 1) == "x = (1,"


def test_a_comment_is_no_part_of_a_statement() -> None:
    source = Source("x = 1  # one\ny = f('#')\n")
    assert [source.text(number, number) for number in (1, 2)] == ["x = 1", "y = f('#')"]
