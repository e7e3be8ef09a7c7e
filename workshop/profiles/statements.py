"""The statements of a source, of which one may go over several lines, and the counts of their lines put together."""

import ast
import io
import re
import sys
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from workshop.profiles.line_profile import Function, Line, with_inner

_NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@dataclass(frozen=True)
class Statement:
    """A statement; of one with a body, such as a loop, what stands before the body."""

    first: int
    last: int
    """The numbers of its first and of its last line."""
    comes_back: bool
    """Whether Python comes back to it, as to the head of a loop, whose hits tell the turns."""
    loops: bool
    """Whether there is a comprehension in it. Since Python 3.12, this is no function of its own: it comes to its lines
    again and again, and the hits are those of the first line."""


@dataclass(frozen=True)
class Row:
    """The counts of one statement."""

    first: int
    last: int
    """The numbers of its first and of its last line."""
    text: str
    """Its source in one line, without comments; empty if the source is gone."""
    hits: int
    """How often it ran."""
    seconds: float
    share: float
    """Its share of the function's time, from 0 to 1."""
    is_recursive: bool = False
    """Whether it calls its own function: it has the time of every level of the recursion again, and is in no sum."""
    is_import: bool = False
    """Whether it is an import, whose time comes once: a longer run has no more of it."""


class Source:
    """A source, cut into statements.

    Args:
        text: the source; None if it is gone. What is not Python has no statements, and each line is by itself.
        python: the version of Python that it ran in. If it is this one, the bytecode tells how often a line occurs.
    """

    def __init__(self, text: str | None, python: tuple[int, ...] = sys.version_info[:2]) -> None:
        self.lines = lines_of(text or "")
        self._text, self.python = text or "", python

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; an empty one of what is not Python."""
        try:
            with warnings.catch_warnings(action="ignore"):  # Python has said it as the script ran
                return ast.parse(self._text)
        except (SyntaxError, ValueError):
            return ast.Module([], [])

    @cached_property
    def statements(self) -> Mapping[int, Statement]:
        """The statement of each line that belongs to one."""
        return {
            number: statement
            for statement in _joined(_statements(self.tree, self.lines))
            for number in range(statement.first, statement.last + 1)
        }

    @cached_property
    def imports(self) -> frozenset[int]:
        """The first line of each import."""
        found = (node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom))
        return frozenset(self.beginning(node.lineno) for node in found)

    def beginning(self, number: int) -> int:
        """Return the first line of the statement that a line is in."""
        return self.statements[number].first if number in self.statements else number

    def rows(self, function: Function) -> list[Row]:
        """Return the counts of each statement of a function that ran, in the order of the file."""
        rows, itself = [], _call_of_itself(function.name)
        for _, each in groupby(function.lines, key=lambda line: self._place(function, line.number)):
            lines = list(each)
            first, last = self._place(function, lines[0].number)
            seconds = sum(line.seconds for line in lines)
            share = seconds / (function.seconds or 1.0)
            text = self.text(first, last)
            kind = bool(itself.search(text)), first in self.imports
            rows.append(Row(first, last, text, self._hits(function, lines), seconds, share, *kind))
        return rows

    def text(self, first: int, last: int) -> str:
        """Return some lines as one, without comments."""
        lines = self.lines[first - 1 : last]
        if len(lines) < 2 and "#" not in "".join(lines):
            return "".join(lines).strip()
        return _in_one_line("\n".join(lines)) or " ".join(line.strip() for line in lines)

    def _place(self, function: Function, number: int) -> tuple[int, int]:
        """The first and last line of the statement of a line; a function in the midst of one is not all of it."""
        statement = self.statements.get(number)
        if statement and (function.name == "<module>" or statement.first >= function.first_line):
            return statement.first, statement.last
        return number, number

    def _hits(self, function: Function, lines: list[Line]) -> int:
        """How often the statement of some lines ran.

        Python goes back to the line of a call after those of its arguments, and counts a hit more. So the hits of a
        line are divided by how often it occurs in the bytecode. There, the whole statement may occur twice, as in a
        `finally`.
        """
        statement = self.statements.get(lines[0].number)
        if len(lines) == 1 or statement is None or statement.comes_back:
            return max(line.hits for line in lines)
        if statement.loops and self.python >= (3, 12):
            return lines[0].hits
        occurs = self._occurrences.get((function.name, function.first_line), Counter[int]())
        least = min(occurs.get(line.number, 1) for line in lines)
        return max(round(line.hits * least / occurs.get(line.number, 1)) for line in lines)

    @cached_property
    def _occurrences(self) -> Mapping[tuple[str, int], Counter[int]]:
        """How often each line occurs in the bytecode of each function, by its name and first line."""
        if self.python != sys.version_info[:2]:
            return {}
        try:
            with warnings.catch_warnings(action="ignore"):
                codes = with_inner(compile(self._text, "", "exec", dont_inherit=True))
        except (SyntaxError, ValueError):
            return {}
        return {
            (code.co_qualname, code.co_firstlineno): Counter(
                number for number, _ in groupby(number for _, _, number in code.co_lines()) if number is not None
            )
            for code in codes
        }


def _call_of_itself(name: str) -> re.Pattern[str]:
    """Return what finds a call of a function in its own lines, by its qualified name.

    Of a method, it is one of the same object or class: that of another may be another method.
    """
    outside, _, short = name.rpartition(".")
    owner = outside.rpartition(".")[2]
    before = r"(?<![\w.])" if owner in ("", "<locals>") else rf"\b(?:self|cls|{re.escape(owner)})\."
    return re.compile(rf"{before}{re.escape(short)}\(")


def lines_of(text: str) -> list[str]:
    """Return the lines of a source, as Python counts them: a form feed does not end one."""
    lines = re.split(r"\r\n|\r|\n", text)
    return lines if lines[-1] else lines[:-1]


def _statements(tree: ast.AST, lines: Sequence[str]) -> Iterator[Statement]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                yield _statement(decorator, decorator.lineno, decorator.end_lineno)
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            comes_back = isinstance(node, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith)
            yield _statement(
                node, node.lineno, _end_of_head(node, body, lines) if body else node.end_lineno, comes_back
            )
        elif isinstance(node, ast.match_case):
            yield _statement(node.pattern, node.pattern.lineno, _end_of_head(node.pattern, node.body, lines))


def _end_of_head(node: Any, body: Sequence[Any], lines: Sequence[str]) -> int:
    """The last line before the body of a statement, but for comments."""
    begin = getattr(body[0], "pattern", body[0])
    last = min([begin.lineno, *(each.lineno for each in getattr(begin, "decorator_list", []))]) - 1
    while last > node.lineno and lines[last - 1].strip()[:1] in ("", "#"):
        last -= 1
    return max(node.lineno, last)


def _statement(node: ast.AST, first: int, last: int | None, comes_back: bool = False) -> Statement:
    loops = any(isinstance(each, ast.ListComp | ast.SetComp | ast.DictComp) for each in ast.walk(node))
    return Statement(first, last or first, comes_back, loops)


def _joined(statements: Iterable[Statement]) -> list[Statement]:
    """Make one of statements that share a line."""
    joined: list[Statement] = []
    for statement in sorted(statements, key=lambda statement: statement.first):
        if joined and statement.first <= joined[-1].last:
            one = joined.pop()
            both = one.comes_back or statement.comes_back, one.loops or statement.loops
            joined.append(Statement(one.first, max(one.last, statement.last), *both))
        else:
            joined.append(statement)
    return joined


def _in_one_line(text: str) -> str:
    """Return a source in one line, without comments and needless space; empty if its tokens cannot be told."""
    parts: list[str] = []
    row = end = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text.strip()).readline):
            if token.type in _NOT_CODE:
                continue
            if parts and token.start[0] == row:
                parts.append(" " * (token.start[1] - end))
            elif parts and parts[-1] not in "([{." and token.string not in (")", "]", "}", "."):
                parts.append(" ")
            if token.string in (")", "]", "}") and token.start[0] != row and parts[-1:] == [","]:
                parts.pop()
            parts.append(token.string)
            row, end = token.end
    except (tokenize.TokenError, IndentationError):  # the head of a loop has no body here
        pass
    return "".join(parts)
