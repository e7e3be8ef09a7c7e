"""The line of an operator of Python, which calls nothing."""

from pathlib import Path

import pytest

from workshop.traces.between_calls import line_between
from workshop.traces.code_files import CodeFiles
from workshop.traces.code_places import CodePlace

SOURCE = '''"""A text."""
import torch


class Net:
    def forward(self, x, y):
        gap = x - y
        gap = torch.tanh(gap)
        for _ in range(3):
            gap = torch.sin(gap)
            gap = gap * 2
            gap = torch.cos(gap)
        far = gap + 1
        near = gap + 2
        return torch.stack(
            [far, near],
        )

    def twice(self, x):
        def inner(x):
            return x * x

        return inner(x) if x.T is x else x


first = torch.ones(3) * 2
'''


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (-1, 8, 7),
        (8, 9, None),
        (10, 12, 11),
        (12, 9, None),
        (12, 15, None),
        (12, 13, 13),
        (13, 15, None),
        (10, 10, 11),
        (14, 14, 14),
        (15, -1, None),
    ],
)
def test_the_line_is_told_if_only_one_has_an_operator(before: int, after: int, line: int | None) -> None:
    assert line_between(CodePlace("net.py", 6, "forward"), SOURCE, before, after) == line


def test_a_function_has_only_what_it_runs_itself() -> None:
    assert line_between(CodePlace("net.py", 20, "inner"), SOURCE, -1, -1) == 21
    assert line_between(CodePlace("net.py", 19, "twice"), SOURCE, -1, -1) == 23
    assert line_between(CodePlace("net.py", 1, "<module>"), SOURCE, 26, -1) == 26
    assert line_between(CodePlace("net.py", 6, "backward"), SOURCE, -1, 8) is None
    assert line_between(CodePlace("net.py", 6, "forward"), "not: Python {", -1, 8) is None


def test_a_file_that_does_not_fit_is_none_of_the_trace(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SOURCE)
    trace = tmp_path / "prof" / "trace.json"
    forward, called = CodePlace("net.py", 6, "forward"), CodePlace("net.py", 8)
    assert CodeFiles(trace, [forward, called]).line(called) == "gap = torch.tanh(gap)"
    assert CodeFiles(trace, [called._replace(file=str(tmp_path / "net.py"))]).source(str(tmp_path / "net.py")) == SOURCE
    for other in (forward._replace(line=30), forward._replace(function="backward"), CodePlace("net.py", 1)):
        assert CodeFiles(trace, [called, other]).line(called) == "", other
