"""Runs the cells of a notebook as a script: in order, in `__main__`, each as a file with a name of its own.

A process that is spawned runs `__main__` again, to find classes and functions in it. A notebook would train again then.
So such a process runs only what is asked for, and whatever that needs: the statements that make a name, and those that
make the names in them.
"""

import ast
import builtins
import dis
import json
import linecache
import os
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workshop.probe import earlier_cells
from workshop.probe.imports import after_import

STORES = ("STORE_NAME", "STORE_GLOBAL")
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LOADS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")


def run(start: str, namespace: dict[str, Any]) -> None:
    """Run the cells that lie beside a file, or in a spawned process only get ready to run what is asked for.

    Args:
        start: the file, which Python runs.
        namespace: that of `__main__`.
    """
    found = json.loads(Path(start).with_name("cells.json").read_text(encoding="utf-8"))
    cells = [CellLoader(namespace["__name__"], file, source) for file, source in found["cells"]]
    for cell in cells:
        linecache.cache[cell.path] = (len(cell.source), None, cell.source.splitlines(keepends=True), cell.path)
    stand_in_for_the_front_end()
    del namespace["run"]  # the name is the notebook's
    if namespace["__name__"] != "__main__":
        namespace["__getattr__"] = NamesOnDemand(namespace, cells).get
        return
    os.chdir(found["folder"])
    sys.argv[0] = found["notebook"]
    if not sys.flags.safe_path:
        sys.path[0] = found["folder"]
    sys.excepthook = lambda _, error, trace: _show(error, trace, (start, __file__))
    with earlier_cells.unseen():
        for cell in cells[: found["earlier"]]:
            try:
                cell.run(namespace)
            except Exception as error:  # as one that asks for the result of another, which there is not here
                note_failure(Path(found["notebook"]), cell, error)
    for cell in cells[found["earlier"] :]:
        cell.run(namespace)


FAILED = ".failed"
"""The end of the name of the file beside a session with what has failed in it."""


def note_failure(session: Path, cell: "CellLoader", error: Exception) -> None:
    """Note that an earlier cell of a session has failed; the next one runs, as in the kernel."""
    says = traceback.format_exception_only(error)[-1].strip()
    with session.with_suffix(FAILED).open("a", encoding="utf-8") as file:
        file.write(f"{Path(cell.path).stem} has failed: {says}\n")


class CellLoader(SourceFileLoader):
    """Loads a cell, or some of its statements, as Python loads a module: so its lines are counted where others are."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self.source = source
        self.statements: list[ast.stmt] | None = None
        """Those to load; None for all."""

    def path_stats(self, path: str) -> Any:
        """Say that there is no file, so that nothing compiled is kept."""
        raise OSError

    def get_data(self, path: str) -> bytes:
        """Return the source."""
        return self.source.encode()

    def source_to_code(self, data: Any, path: Any, *_: Any) -> types.CodeType:  # type: ignore[override]
        """Return the code of what is to be loaded."""
        tree = ast.parse(data, path)
        if self.statements is not None:
            tree.body = self.statements
        return compile(tree, path, "exec", dont_inherit=True)

    def run(self, namespace: dict[str, Any]) -> None:
        """Run it in a namespace."""
        code = self.get_code(self.name)
        assert code
        exec(code, namespace)


class NamesOnDemand:
    """The names of the cells, each made as it is asked for."""

    def __init__(self, namespace: dict[str, Any], cells: list[CellLoader]) -> None:
        self.namespace = namespace
        nodes = [(cell, node) for cell in cells for node in ast.parse(cell.source).body]
        imports = [node for _, node in nodes if isinstance(node, ast.Import)]
        modules = {(each.asname or each.name).partition(".")[0] for node in imports for each in node.names}
        self.statements = [CellStatement(cell, node, modules) for cell, node in nodes]

    def get(self, name: str) -> Any:
        """Return the value of a name, after what makes it has run, in its order.

        Raises:
            AttributeError: nothing makes it.
        """
        module = vars(sys.modules["__mp_main__"])
        needed: set[CellStatement] = set()
        names, known = [name], set()
        while names:
            known.add(wanted := names.pop())
            for each in self.statements:
                if wanted in each.makes and each not in needed:
                    needed.add(each)
                    names += each.needs - known
        for each in [each for each in self.statements if each in needed and not each.has_run]:
            each.run(self.namespace)
        if name not in self.namespace:
            raise AttributeError(f"no cell of the notebook makes {name}")
        module.update({key: value for key, value in self.namespace.items() if key != "__getattr__"})
        return self.namespace[name]


class CellStatement:
    """A statement of a cell, outside of functions."""

    def __init__(self, cell: CellLoader, node: ast.stmt, modules: set[str]) -> None:
        self.cell, self.node, self.has_run = cell, node, False
        code = compile(ast.Module([node], []), cell.path, "exec", dont_inherit=True)
        is_loop = isinstance(node, ast.For | ast.While)
        made = {} if is_loop else {each.argval for each in dis.get_instructions(code) if each.opname in STORES}
        self.makes = {*made, *(_changed(node) if not isinstance(node, SCOPES) else ())} - ({*modules} - {*made})
        self.needs = set(_loaded(code))

    def run(self, namespace: dict[str, Any]) -> None:
        """Run it, once."""
        self.has_run = True
        self.cell.statements = [self.node]
        self.cell.run(namespace)


def _loaded(code: types.CodeType) -> Iterator[str]:
    """Yield the global names that code reads, and the functions in it."""
    yield from (each.argval for each in dis.get_instructions(code) if each.opname in LOADS)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _loaded(inner)


def _changed(node: ast.stmt) -> Iterator[str]:
    """Yield the names of what a statement changes: by an item, an attribute or a call of a method."""
    for each in ast.walk(node):
        target: ast.AST | None = None
        if isinstance(each, ast.Subscript | ast.Attribute) and isinstance(each.ctx, ast.Store):
            target = each.value
        elif isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
            target = each.value.func.value if isinstance(each.value.func, ast.Attribute) else None
        while isinstance(target, ast.Subscript | ast.Attribute):
            target = target.value
        if isinstance(target, ast.Name):
            yield target.id


def stand_in_for_the_front_end() -> None:
    """Let what a front end gives to a notebook be called, and do nothing."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # plots open no window that waits to be closed
    nothing, shown = NoFrontEnd("IPython"), NoFrontEnd("IPython.display")
    vars(nothing).update(display=shown)  # a module in IPython, a function for the cells
    vars(builtins).update(display=shown.display, get_ipython=lambda: nothing)
    if find_spec("IPython") is None:
        parts = dict.fromkeys(("IPython.display", "IPython.core", "IPython.core.display"), shown)
        sys.modules |= {"IPython": nothing, **parts}
    after_import("tqdm.notebook", _bars_of_text)


class NoFrontEnd(types.ModuleType):
    """What notebooks take from IPython: of any name there is a function, which does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def _bars_of_text(notebook: Any) -> None:
    bars = sys.modules["tqdm.std"]
    notebook.tqdm = notebook.tqdm_notebook = bars.tqdm
    notebook.trange = notebook.tnrange = bars.trange


def _show(error: BaseException, trace: types.TracebackType | None, before: Sequence[str]) -> None:
    """Print an exception with the lines of the cells, and without the frames in the files that have led to them."""
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename in before:
        trace = trace.tb_next
    traceback.print_exception(error.with_traceback(trace))
