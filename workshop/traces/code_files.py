"""Finds the files of the places in a trace, and the functions in them."""

import ast
import linecache
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from workshop.notebooks.cell_places import cell_source
from workshop.profiles.statements import Source
from workshop.traces.code_places import CodePlace

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module


class CodeFiles:
    """The files of some places, as they are named, here, or beside the trace.

    A file is taken only if it has the functions and the statements that the trace names: another one may have its name,
    or it may have changed.

    Args:
        recorded: the trace.
        places: the places in it.
    """

    def __init__(self, recorded: Path, places: Iterable[CodePlace]) -> None:
        self._folders = [Path(), *recorded.absolute().parents[:2]]
        self._places: dict[str, list[CodePlace]] = defaultdict(list)
        for place in places:
            self._places[place.file].append(place)
        self.source = cache(self._find)

    def line(self, place: CodePlace) -> str:
        """Return the code of a place, or nothing."""
        lines = self.source(place.file).splitlines() if place.file else []
        return lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""

    def _find(self, file: str) -> str:
        """Return what is in a file, or nothing if it is not found."""
        for folder in self._folders:
            source = "".join(linecache.getlines(str(folder / file))) or cell_source(str(folder / file))
            if source and all(_has(tree_of(source), place) for place in self._places[file]):
                return source
        return ""


@cache
def tree_of(source: str) -> ast.Module:
    """Return the syntax tree of a file."""
    return Source(source).tree


def scope_of(tree: ast.Module, place: CodePlace) -> Scope | None:
    """Return the function of a place in which only that is known, or the module; None if it is not there."""
    found = (each for each in ast.walk(tree) if isinstance(each, Scope) and _name(each) == place.function)
    return max(
        (each for each in found if first_line(each) <= place.line <= last_line(each)), key=first_line, default=None
    )


def first_line(node: ast.AST) -> int:
    """Return the line at which a node begins, with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    return min((each.lineno for each in decorators), default=getattr(node, "lineno", 1))


def last_line(node: ast.AST) -> int:
    """Return the line at which a node ends."""
    return getattr(node, "end_lineno", None) or max(map(last_line, ast.iter_child_nodes(node)), default=1)


def _has(tree: ast.Module, place: CodePlace) -> bool:
    """Return whether a file has a place: its function, if it has a name, or a statement that may call something."""
    if place.function:
        return place.function.startswith("<") or scope_of(tree, place) is not None
    return place.line in _statement_lines(tree)


@cache
def _statement_lines(tree: ast.Module) -> frozenset[int]:
    """Return the lines of all statements but those that are a text."""
    statements = [each for each in ast.walk(tree) if isinstance(each, ast.stmt)]
    texts = [each for each in statements if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)]
    has = {line for each in statements if not isinstance(each, ast.FunctionDef | ast.ClassDef) for line in _lines(each)}
    return frozenset(has - {line for each in texts for line in _lines(each)})


def _lines(node: ast.AST) -> range:
    return range(first_line(node), last_line(node) + 1)


def _name(scope: Scope) -> str:
    if isinstance(scope, ast.Module):
        return "<module>"
    return "<lambda>" if isinstance(scope, ast.Lambda) else scope.name
