"""Finds the line of what a function did between two calls, such as `a - b`: an operator of Python calls nothing.

A trace has the lines of the calls before and after. If only one line between these has an operator, that is the line.
"""

import ast
from collections.abc import Iterator

from workshop.traces.code_files import Scope, first_line, last_line, scope_of, tree_of
from workshop.traces.code_places import CodePlace

OPERATORS = (ast.BinOp, ast.UnaryOp, ast.AugAssign, ast.Compare, ast.Subscript)
TESTS = (ast.If, ast.While, ast.IfExp, ast.Assert)
VIEWS = ("T", "mT", "H", "mH", "real", "imag")
"""The attributes of a tensor that run an operator, but are no function."""


def line_between(function: CodePlace, source: str, before: int, after: int) -> int | None:
    """Return the line in which a function ran an operator of Python, if there is only one that it can be.

    Args:
        function: the function, or the module.
        source: what is in its file.
        before: the line of the call before, or -1 at the begin of the function.
        after: the line of the call after, or -1 at its end.
    """
    scope = scope_of(tree_of(source), function)
    if scope is None:
        return None
    first, last = before if before > 0 else first_line(scope), after if after > 0 else last_line(scope)
    lines = {*range(min(first, last), max(first, last) + 1)}
    nodes = [*_inside(scope)]
    loops = [each for each in nodes if isinstance(each, ast.For | ast.AsyncFor | ast.While)]
    again = [each for each in loops if first_line(each) <= last <= first <= last_line(each)]
    if again and before > 0 and after > 0:  # the next round of a loop may have begun
        loop = max(again, key=first_line)
        lines = {each for each in range(first_line(loop), last_line(loop) + 1) if each >= first or each <= last}
    found = lines & {each.lineno for each in nodes if isinstance(each, ast.expr | ast.stmt) and _computes(each)}
    return found.pop() if len(found) == 1 else None


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what a function runs itself, without the functions in it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, Scope | ast.ClassDef):
            yield from _inside(child)


def _computes(node: ast.expr | ast.stmt) -> bool:
    """Return whether a node may run an operator of torch without a call."""
    return isinstance(node, (*OPERATORS, *TESTS)) or (isinstance(node, ast.Attribute) and node.attr in VIEWS)
