"""Counts the lines of a cell in the kernel itself, and takes out again what it has put into it."""

import ast
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from inspect import CO_COROUTINE
from types import CodeType, FunctionType
from typing import Any

from workshop.errors import WorkshopError
from workshop.kernel.answer import Answer
from workshop.kernel.asking import Asking
from workshop.kernel.cells_so_far import RanCell, write_session
from workshop.kernel.command_process import shown
from workshop.kernel.instruments import lines_of
from workshop.line_counts import MAIN, ProcessCounts
from workshop.line_counts.counted_code import CountedCode
from workshop.notebooks.notebook_file import read
from workshop.recording.line_recorder import write_profile
from workshop.runs.other_load import LoadMeter


def count_here(
    shell: Any, body: str, cell: RanCell, ran: Sequence[RanCell], names: Mapping[int, str]
) -> tuple[ProcessCounts | None, BaseException | None]:
    """Run a cell in the kernel, and count its lines, and those of the functions of earlier cells that it calls.

    What runs in other processes, such as workers, and in threads that it starts, is not counted.

    Args:
        shell: that of IPython.
        body: the cell without the line of its magic.
        cell: the cell.
        ran: those before it.
        names: what the file of each cell is called in the profile.

    Returns:
        the counts, if a line ran; and the exception that has ended it, if one has.

    Raises:
        WorkshopError: it is no Python, or awaits something outside of functions.
    """
    code_name, transformed = shell.compile.get_code_name, shell.transform_cell
    files = {code_name(each.source, transformed(each.source), each.number): each for each in ran}
    source = "\n" + transformed(body)  # in the first line is the magic
    file = shell.compile.cache(source, cell.number, raw_code=cell.source)
    files[file] = cell
    try:
        codes, value = _codes(shell, source, file), None
    except SyntaxError as wrong:
        text = (wrong.text or "").strip()
        raise WorkshopError(f"In [{cell.number}], line {wrong.lineno}: {wrong.msg}: {text}") from None
    error: BaseException | None = None
    with CodeInPlace(shell.user_ns) as in_place:
        counted = in_place.counted
        in_place.put(each for each in _functions(shell.user_ns) if each.__code__.co_filename in files)
        codes, begin_s = [counted.counted(each) for each in codes], time.monotonic()
        try:
            for code in codes:
                value = eval(code, shell.user_ns)  # None of all but an expression
        except (Exception, KeyboardInterrupt) as stopped:
            error = stopped
            _show_cell_alone(shell, error)
        seconds = time.monotonic() - begin_s
    if error is None:
        sys.displayhook(value)
    stats = counted.stats()
    lines = [
        (names[files[path].number], first, name, rows) for (path, first, name), rows in stats.timings.items() if rows
    ]
    sources = {names[each.number]: each.source for each in files.values()}
    version = list(sys.version_info[:2])
    return ProcessCounts(MAIN, seconds, stats.unit, lines, sources, version) if lines else None, error


def _codes(shell: Any, source: str, file: str) -> list[CodeType]:
    """The code of a cell; of its last line apart, if it has a value that IPython would show."""
    tree = shell.compile.ast_parse(source, file)
    parts: list[tuple[ast.AST, str]] = [(tree, "exec")]
    if tree.body and isinstance(last := tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        tree.body.pop()
        parts.append((ast.Expression(last.value), "eval"))
    with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        codes = [shell.compile(part, file, kind) for part, kind in parts]
    if any(each.co_flags & CO_COROUTINE for each in codes):
        raise WorkshopError("%%lines --here cannot await outside of functions; run this cell without the magic")
    return codes


def _show_cell_alone(shell: Any, error: BaseException) -> None:
    """Have IPython show a traceback that begins in the cell, without what runs it here."""
    assert error.__traceback__
    trace = error.__traceback__.tb_next
    shown: Any = error
    shown._render_traceback_ = lambda: shell.InteractiveTB.structured_traceback(type(error), error, trace, 0)


def lines_here(shell: Any, ran: Sequence[RanCell], cell: RanCell, body: str, asking: Asking) -> Answer | None:
    """Run a cell in the kernel with its lines counted, and return what was counted; None if no line ran.

    If the cell ends with an exception, or is interrupted, it is shown what was counted until then.

    Args:
        shell: that of IPython.
        ran: what has run before the cell.
        cell: the cell.
        body: the cell without the line of its magic.
        asking: how the lines are shown.
    """
    cells = {each.number: each for each in (*ran, cell)}
    notebook = read(write_session(asking.folder, list(cells.values())))
    names = {each.number: notebook.file_of(each) for each in notebook.cells}
    with LoadMeter() as load:
        counts, error = count_here(shell, body, cell, ran, names)
    answer = None
    if counts:
        profile = asking.folder / f"In [{cell.number}].lprof"
        write_profile(profile, [counts], [notebook.path.stem], (), load.end())
        answer = lines_of(profile, asking)
    if error is None:
        return answer
    if answer:
        shown(answer)
    raise error


class CodeInPlace:
    """Functions run code that is counted, until the block ends; then they have their own again.

    Args:
        namespace: where to look in the end for functions that were made meanwhile.
    """

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._changed: list[FunctionType] = []
        self.counted = CountedCode()

    def __enter__(self) -> "CodeInPlace":
        self.counted.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.counted.end()
        originals = self.counted.originals
        for each in (*self._changed, *_functions(self._namespace)):
            each.__code__ = originals.get(id(each.__code__), each.__code__)

    def put(self, functions: Iterator[FunctionType]) -> None:
        """Have functions counted."""
        for each in functions:
            if id(each.__code__) not in self.counted.originals:
                self._changed.append(each)
                each.__code__ = self.counted.counted(each.__code__)


def _functions(namespace: Mapping[str, Any]) -> Iterator[FunctionType]:
    """Yield the functions of a namespace, and of the classes that were made in it."""
    for value in list(namespace.values()):
        if isinstance(value, type) and value.__module__ == namespace.get("__name__"):
            for each in list(vars(value).values()):
                yield from _inside(each)
        else:
            yield from _inside(value)


def _inside(value: Any) -> Iterator[FunctionType]:
    """Yield the function that something is, or is made of: a method of a class, a property, what is decorated."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    for each in (value.fget, value.fset) if isinstance(value, property) else (value,):
        while isinstance(each, FunctionType):
            yield each
            each = vars(each).get("__wrapped__")
