"""Lines counted in the kernel itself: what is counted, and that nothing of it stays."""

import inspect
import sys
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
        ("%%lines --here --nothing\nx = 1", "No such option"),
        ("%%lines --here --function nothing\nx = 1", "no function nothing ran"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(cell: str, says: str, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert not shell.run_cell(cell, store_history=True).success
    printed = capsys.readouterr().out
    assert says in printed
    assert len(printed.strip().splitlines()) == 1
