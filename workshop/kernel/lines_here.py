"""Counts the lines of a cell in the kernel itself, and takes out again what it has put into it."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from workshop.kernel.answer import Answer
from workshop.kernel.cells_so_far import RanCell, write_session
from workshop.kernel.command_process import shown
from workshop.kernel.instruments import Asking, lines_of
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
    """
    code_name, transformed = shell.compile.get_code_name, shell.transform_cell
    files = {code_name(each.source, transformed(each.source), each.number): each for each in ran}
    source = "\n" + transformed(body)  # in the first line is the magic
    file = shell.compile.cache(source, cell.number, raw_code=cell.source)
    files[file] = cell
    code = shell.compile(source, file, "exec")
    error: BaseException | None = None
    with CodeInPlace(shell.user_ns) as in_place:
        counted = in_place.counted
        in_place.put(each for each in _functions(shell.user_ns) if each.__code__.co_filename in files)
        code, begin_s = counted.counted(code), time.monotonic()
        try:
            exec(code, shell.user_ns)
        except (Exception, KeyboardInterrupt) as stopped:
            error = stopped
        seconds = time.monotonic() - begin_s
    stats = counted.profiler.get_stats()
    lines = [
        (names[files[path].number], first, name, rows) for (path, first, name), rows in stats.timings.items() if rows
    ]
    sources = {names[each.number]: each.source for each in files.values()}
    version = list(sys.version_info[:2])
    return ProcessCounts(MAIN, seconds, stats.unit, lines, sources, version) if lines else None, error


def lines_here(
    shell: Any, ran: Sequence[RanCell], cell: RanCell, body: str, view: Sequence[str], folder: Path
) -> Answer | None:
    """Run a cell in the kernel with its lines counted, and return what was counted; None if no line ran.

    If the cell ends with an exception, or is interrupted, it is shown what was counted until then.

    Args:
        shell: that of IPython.
        ran: what has run before the cell.
        cell: the cell.
        body: the cell without the line of its magic.
        view: options of `workshop lines`.
        folder: the folder of this cell.
    """
    cells = {each.number: each for each in (*ran, cell)}
    notebook = read(write_session(folder, list(cells.values())))
    names = {each.number: notebook.file_of(each) for each in notebook.cells}
    with LoadMeter() as load:
        counts, error = count_here(shell, body, cell, ran, names)
    answer = None
    if counts:
        profile = folder / f"In [{cell.number}].lprof"
        write_profile(profile, [counts], [notebook.path.stem], (), load.end())
        answer = lines_of(profile, view, Asking("lines", [], [], folder))
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
