"""The edit that gives a DataLoader other settings: the call in the source, its arguments before and after."""

import ast
import difflib
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Any

from workshop.notebooks.cell_places import line_of, place
from workshop.notebooks.magics import as_python
from workshop.notebooks.notebook_file import cell_of, read, with_source
from workshop.probe.loader_settings import SETTINGS, LoaderSettings, Setting, literal

TIMEOUT = Setting(argument="timeout", place=9, needs_workers=True, without=0)
"""Is left as it is, but for a DataLoader that loses its workers."""

ARGUMENTS = (*(setting for setting in SETTINGS.values() if setting.argument), TIMEOUT)
"""What a call of DataLoader is given, as far as an edit changes it."""


class NoEditError(Exception):
    """The call cannot be edited by itself; the text says why."""


@dataclass(frozen=True)
class LoaderEdit:
    """A file, or a cell of a notebook, before and after the edit."""

    path: Path
    """The file as Python has it: of a cell, one by its name, which is not on the disk."""
    line: int
    before: str
    after: str
    arguments: Mapping[str, str]
    """What is set: the source of each argument, by its name."""
    encoding: str = "utf-8"

    @property
    def diff(self) -> list[str]:
        """The lines of a unified diff."""
        name = place(str(self.path), None)
        before, after = (text.splitlines() for text in (self.before, self.after))
        return list(difflib.unified_diff(before, after, name, f"{name}, tuned", n=2, lineterm=""))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"file": str(self.path), "line": self.line, "arguments": dict(self.arguments), "diff": self.diff}

    @property
    def file(self) -> Path:
        """The file on the disk."""
        cell = cell_of(str(self.path))
        return Path(cell[0]) if cell else self.path

    @property
    def content(self) -> bytes:
        """What the edited file holds; of a notebook, nothing but the cell has changed."""
        cell = cell_of(str(self.path))
        return with_source(Path(cell[0]), cell[1], self.after) if cell else self.after.encode(self.encoding)


def edit(path: Path, line: int, settings: LoaderSettings, present: LoaderSettings) -> LoaderEdit:
    """Return the edit of the call that makes a DataLoader in a line.

    Raises:
        NoEditError: there is no such call, or there are several, or the file cannot be read.
    """
    try:
        before, encoding = _source(path)
        tree = ast.parse(_python(before, path))
    except (OSError, ValueError, SyntaxError) as error:
        raise NoEditError(f"{place(str(path), None)} cannot be read: {error}") from None
    call = _call(tree, path, line)
    wanted = settings.arguments(present)
    if settings.workers == 0 != present.workers:
        given = {*_given(call), *(keyword.arg for keyword in call.keywords)}  # None for **: it may have any of them
        of_workers = [setting for setting in ARGUMENTS if setting.needs_workers and given & {setting.argument, None}]
        wanted |= {setting.argument: literal(setting.without) for setting in of_workers}
    after = _with_arguments(before, call, wanted)
    if calls := settings.calls(present):
        after = _with_calls(after, tree, call, calls)
    try:
        ast.parse(_python(after, path))
    except SyntaxError:
        raise NoEditError(f"{line_of(str(path), line)} is written in a way that cannot be edited here") from None
    return LoaderEdit(path, call.lineno, before, after, wanted, encoding)


def _source(path: Path) -> tuple[str, str]:
    """The text of a file or a cell, and its encoding."""
    if cell := cell_of(str(path)):
        notebook, number = cell
        return read(Path(notebook)).cells[number - 1].source, "utf-8"
    content = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(BytesIO(content).readline)
    return content.decode(encoding), encoding


def _python(source: str, path: Path) -> str:
    """A text as Python has it: each line of a cell stays where it is."""
    return as_python(source).source if cell_of(str(path)) else source


def _call(tree: ast.AST, path: Path, line: int) -> ast.Call:
    aliases = {"DataLoader"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            aliases |= {alias.asname for alias in node.names if alias.name.endswith("DataLoader") and alias.asname}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _makes_loader(node, aliases)]
    here = [node for node in calls if node.lineno <= line <= (node.end_lineno or node.lineno)]
    begin = [node for node in here if line in (node.lineno, node.func.end_lineno)] or here
    if len(begin) != 1:
        several = "several DataLoaders are" if begin else "no call of DataLoader is"
        raise NoEditError(f"{several} in {line_of(str(path), line)}")
    return begin[0]


def _makes_loader(call: ast.Call, aliases: set[str]) -> bool:
    """Whether a call makes a DataLoader, or one of a class derived from it, in the constructor of that class."""
    function = call.func
    if isinstance(function, ast.Attribute):
        of_super = isinstance(function.value, ast.Call) and getattr(function.value.func, "id", "") == "super"
        return function.attr.endswith("DataLoader") or (function.attr == "__init__" and of_super)
    return isinstance(function, ast.Name) and (function.id in aliases or function.id.endswith("Loader"))


def _with_arguments(source: str, call: ast.Call, wanted: Mapping[str, str]) -> str:
    """Return the source with these arguments in a call, in place of what it says of them or behind the others."""
    changes: list[tuple[int, int, str]] = []
    places = _Places(source)
    given, new = _given(call), dict(wanted)
    for name in [name for name in wanted if name in given]:
        changes.append((*places.of(given[name]), new.pop(name)))
    unpacked = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if new and unpacked:  # it may have the same arguments, and they may be given but once
        begin, end = places.of(unpacked[-1])
        pairs = ", ".join(f'"{name}": {value}' for name, value in new.items())
        changes.append((begin, end, f"{{**{_in_parentheses(unpacked[-1], source[begin:end])}, {pairs}}}"))
    elif new:
        changes.append(_appended(source, call, places, new))
    for begin, end, text in sorted(changes, reverse=True):
        source = source[:begin] + text + source[end:]
    return source


def _with_calls(source: str, tree: ast.Module, call: ast.Call, calls: Sequence[str]) -> str:
    """Return the source with lines that call functions of torch before the statement that makes the DataLoader."""
    imports = (name for node in tree.body if isinstance(node, ast.Import) for name in node.names)
    torch = next((name.asname or name.name for name in imports if name.name == "torch"), "")
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.stmt))
    around = (one for one in statements if one.lineno <= call.lineno <= (one.end_lineno or one.lineno))
    statement = max(around, key=lambda one: (one.lineno, one.col_offset))
    lines = source.split("\n")  # as Python counts them
    indent = lines[statement.lineno - 1][: statement.col_offset]
    if not torch or indent.strip():
        raise NoEditError(f"there is no place for {', '.join(calls)} in the script; call it before the training")
    end = "\r" if "\r\n" in source else ""
    new = [f"{indent}{torch}{text.removeprefix('torch')}{end}" for text in calls]
    lines[statement.lineno - 1 : statement.lineno - 1] = new
    return "\n".join(lines)


def _in_parentheses(node: ast.expr, text: str) -> str:
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Dict, ast.Subscript)) else f"({text})"


def _given(call: ast.Call) -> dict[str, ast.expr]:
    """What a call gives for the arguments that may be set, by name or by place."""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    places = {setting.argument: setting.place for setting in ARGUMENTS if setting.place is not None}
    by_place = {name: call.args[at] for name, at in places.items() if at < len(call.args) and not starred}
    return by_place | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _appended(source: str, call: ast.Call, places: "_Places", new: Mapping[str, str]) -> tuple[int, int, str]:
    """The change that puts arguments behind the last one: in lines of their own where that has one."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    end = places.of(call)[1] - 1  # of the closing parenthesis
    added = [f"{name}={value}" for name, value in new.items()]
    if not arguments:
        return end, end, ", ".join(added)
    last_begin, last_end = max(map(places.of, arguments))
    begin_of_line = source.rfind("\n", 0, last_begin) + 1
    start = source[begin_of_line:last_begin]
    indent = start[: len(start) - len(start.lstrip())]
    after = source[last_end:end]
    has_comma = "," in "".join(_without_comment(line) for line in after.splitlines())
    own_lines = "\n" in after and begin_of_line > places.of(call)[0]
    if not own_lines:
        return last_end, last_end, ", " + ", ".join(added)
    newline = "\r\n" if "\r\n" in source else "\n"
    if has_comma:  # behind the comma and a comment
        at = source.index("\n", last_end) + 1
        return at, at, "".join(f"{indent}{argument},{newline}" for argument in added)
    return last_end, last_end, "".join(f",{newline}{indent}{argument}" for argument in added)


def _without_comment(line: str) -> str:
    return line.partition("#")[0]


class _Places:
    """Where the nodes of a source are in its text; Python counts bytes in lines."""

    def __init__(self, source: str) -> None:
        self._lines = [f"{line}\n" for line in source.split("\n")]  # as Python counts them
        self._begins = list(accumulate(map(len, self._lines), initial=0))

    def of(self, node: ast.expr) -> tuple[int, int]:
        """Return where a node begins and ends, as numbers of characters."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int, column: int) -> int:
        text = self._lines[line - 1].encode()[:column].decode()
        return self._begins[line - 1] + len(text)
