"""Lines counted in the kernel itself: what is counted, and that nothing of it stays."""

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from workshop.kernel.answer import Answer

EARLIER = """\
import functools
def double(x):
    return 2 * x
def noted(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)
    return call
class Numbers:
    @staticmethod
    def first():
        return 1
    @property
    def second(self):
        return double(self.first())
    @noted
    def third(self, by):
        return sum(number + by for number in range(3))
"""

BODY = """\
numbers = Numbers()
def made(x):
    return x + 1
for number in range(10):
    made(numbers.second + numbers.third(number))
"""


def codes(shell: Any) -> dict[str, Any]:
    numbers = shell.user_ns["Numbers"]
    found = {"double": shell.user_ns["double"], "first": numbers.first, "second": numbers.second.fget}
    found |= {"third": numbers.third, "inside": numbers.third.__wrapped__}
    return {name: each.__code__ for name, each in found.items()}


def traced() -> tuple[Any, ...]:
    monitoring = getattr(sys, "monitoring", None)
    tools = [monitoring.get_tool(number) for number in range(6)] if monitoring else []
    return sys.gettrace(), sys.getprofile(), *tools


def hits(answer: Answer) -> dict[tuple[str, int], int]:
    functions = answer.values["functions"]
    return {(each["function"], row["line"]): row["hits"] for each in functions for row in each["rows"]}


def test_lines_of_the_cell_and_of_earlier_functions_are_counted_and_nothing_stays(shell: Any) -> None:
    assert shell.run_cell(EARLIER, store_history=True).success
    before, tracing = codes(shell), traced()
    result = shell.run_cell(f"%%lines --here\n{BODY}", store_history=True)
    assert result.success
    answer = shell.user_ns["_"]
    assert isinstance(answer, Answer)
    found = hits(answer)
    assert found["double", 3] == found["Numbers.first", 12] == found["Numbers.third", 18] == 10
    assert found["made", 4] == 10, "line 1 is that of the magic"
    assert found["<module>", 6] == 10
    assert "made  In [3], line 3" in answer.text
    assert "Numbers.third  In [2], line 16" in answer.text
    assert "workshop-session" not in answer.text + answer.page + str(answer.values)
    assert codes(shell) == before
    assert all(code is before[name] for name, code in codes(shell).items())
    assert traced() == tracing
    assert shell.user_ns["made"](1) == 2
    assert inspect.getsource(shell.user_ns["made"]) == "def made(x):\n    return x + 1\n"
    assert shell.user_ns["number"] == 9, "it ran in the kernel"


def test_a_cell_that_fails_is_counted_until_then(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell(EARLIER, store_history=True)
    before, tracing = codes(shell), traced()
    result = shell.run_cell("%%lines --here\nfor x in range(3):\n    double(x)\n1 / 0", store_history=True)
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "double  In [2], line 2" in capsys.readouterr().out
    assert (codes(shell), traced()) == (before, tracing)


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%measure", "name a script behind %measure"),
        ("%lines --here train.py", "--here is for cells"),
        ("%%measure --here\ntrain()", "leave --here out, or take %%lines --here"),
        ("%%memory --here\ntrain()", "leave --here out, or take %%lines --here"),
        ("%%lines --here --topp 3\nx = 1", "No such option"),
        ("%%lines --here --seconds 3\nx = 1", "--seconds is not for --here"),
        ("%%lines --here --html nowhere/page.html\nx = 1", "there is no folder nowhere"),
        ("%%lines --here\nx = 1 +", "line 2: invalid syntax: x = 1 +"),
        ("%%lines --here\nx = await y", "cannot await outside of functions"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(cell: str, says: str, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert not shell.run_cell(cell, store_history=True).success
    printed = capsys.readouterr().out
    assert says in printed
    assert len(printed.strip().splitlines()) == 1
    assert "x" not in shell.user_ns, "it is told before anything runs"


def test_the_last_value_is_shown_as_without_the_magic(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for cell, is_shown in (("x = 20\nx + 22", True), ("x = 20\nx + 22;", False)):
        capsys.readouterr()
        assert shell.run_cell(f"%%lines --here\n{cell}", store_history=True).success
        assert (": 42\n" in capsys.readouterr().out) is is_shown
        assert [row["line"] for row in shell.user_ns["_"].values["functions"][0]["rows"]] == [2, 3]


def test_the_traceback_of_a_cell_begins_in_it(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("def divide(x):\n    return 1 / x", store_history=True)
    capsys.readouterr()
    shell.run_cell("%%lines --here\ndivide(0)", store_history=True)
    printed = capsys.readouterr().out
    assert "return 1 / x" in printed
    assert "divide(0)" in printed
    assert "workshop/kernel" not in printed
    assert "interactiveshell" not in printed


def test_what_was_counted_is_shown_also_if_no_such_function_ran(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell(EARLIER, store_history=True)
    capsys.readouterr()
    assert not shell.run_cell("%%lines --here --function nothing\ndouble(1);", store_history=True).success
    printed = capsys.readouterr().out
    assert "double  In [2], line 2" in printed
    assert "no function nothing ran in In [3]; those that did: <module>, double" in printed


def test_a_page_and_json_can_be_asked_for(shell: Any, tmp_path: Path) -> None:
    shell.run_cell(EARLIER, store_history=True)
    cell = "%%lines --here --html page.html --json --by process\ndouble(1);"
    assert shell.run_cell(cell, store_history=True).success
    answer = shell.user_ns["_"]
    assert (tmp_path / "page.html").read_text() == answer.page
    assert json.loads(answer.text) == answer.values
    assert answer.values["functions"][0]["process"] == "main process"
