"""The edit that gives a DataLoader other settings: the call in the source, its arguments before and after."""

import ast
import difflib
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from workshop.probe.loader_settings import LoaderSettings

POSITIONS = {"num_workers": 5, "pin_memory": 7, "timeout": 9, "multiprocessing_context": 11}
"""Where arguments stand that a DataLoader may be given without their names, counted from 0."""

ONLY_WITH_WORKERS = {
    "prefetch_factor": "None",
    "persistent_workers": "False",
    "multiprocessing_context": "None",
    "timeout": "0",
}
"""What only workers may have, and what it is without them."""


class NoEditError(Exception):
    """The call cannot be edited by itself; the text says why."""


@dataclass(frozen=True)
class LoaderEdit:
    """A file before and after the edit."""

    path: Path
    line: int
    before: str
    after: str
    arguments: Mapping[str, str]
    """What is set: the source of each argument, by its name."""
    encoding: str = "utf-8"

    @property
    def diff(self) -> list[str]:
        """The lines of a unified diff."""
        name = self.path.name
        before, after = (text.splitlines() for text in (self.before, self.after))
        return list(difflib.unified_diff(before, after, name, f"{name}, tuned", n=2, lineterm=""))

    @property
    def content(self) -> bytes:
        """What the edited file holds."""
        return self.after.encode(self.encoding)


def arguments_for(settings: LoaderSettings, present: LoaderSettings) -> dict[str, str]:
    """Return the arguments to be set, as source, where settings differ from the present ones."""
    found = {}
    if settings.workers != present.workers:
        found["num_workers"] = str(settings.workers)
    if settings.pin_memory != present.pin_memory:
        found["pin_memory"] = str(settings.pin_memory)
    if not settings.workers:
        return found
    if settings.prefetch_factor != present.prefetch_factor:
        found["prefetch_factor"] = str(settings.prefetch_factor)
    if settings.persistent != present.persistent:
        found["persistent_workers"] = str(settings.persistent)
    if settings.start_method != present.start_method:
        found["multiprocessing_context"] = f'"{settings.start_method}"'
    return found


def threads_for(settings: LoaderSettings, torch: str = "torch") -> str:
    """Return the call that sets the number of threads of the training process."""
    return f"{torch}.set_num_threads({settings.threads})"


def edit(path: Path, line: int, settings: LoaderSettings, present: LoaderSettings) -> LoaderEdit:
    """Return the edit of the call that makes a DataLoader in a line.

    Raises:
        NoEditError: there is no such call, or there are several, or the file cannot be read.
    """
    try:
        content = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(BytesIO(content).readline)
        before = content.decode(encoding)
        tree = ast.parse(before)
    except (OSError, ValueError, SyntaxError) as error:
        raise NoEditError(f"{path.name} cannot be read: {error}") from None
    call = _call(tree, path, line)
    wanted = arguments_for(settings, present)
    if settings.workers == 0 != present.workers:
        given = {*_given(call), *(each.arg for each in call.keywords)}  # None for **: it may have any of them
        wanted |= {name: value for name, value in ONLY_WITH_WORKERS.items() if given & {name, None}}
    after = _with_arguments(before, call, wanted)
    if settings.threads:
        after = _with_threads(after, tree, call, settings)
    try:
        ast.parse(after)
    except SyntaxError:
        raise NoEditError(f"line {line} of {path.name} is written in a way that cannot be edited here") from None
    return LoaderEdit(path, call.lineno, before, after, wanted, encoding)


def _call(tree: ast.AST, path: Path, line: int) -> ast.Call:
    """The call in this line that makes a DataLoader."""
    aliases = {"DataLoader"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            aliases |= {each.asname for each in node.names if each.name.endswith("DataLoader") and each.asname}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _makes_loader(node, aliases)]
    here = [node for node in calls if node.lineno <= line <= (node.end_lineno or node.lineno)]
    begin = [node for node in here if line in (node.lineno, node.func.end_lineno)] or here
    if len(begin) != 1:
        several = "several DataLoaders are" if begin else "no call of DataLoader is"
        raise NoEditError(f"{several} in line {line} of {path.name}")
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
    for name in [each for each in wanted if each in given]:
        changes.append((*places.of(given[name]), new.pop(name)))
    unpacked = [each.value for each in call.keywords if each.arg is None]
    if new and unpacked:  # it may have the same arguments, and they may be given but once
        begin, end = places.of(unpacked[-1])
        pairs = ", ".join(f'"{name}": {value}' for name, value in new.items())
        changes.append((begin, end, f"{{**{_in_parentheses(unpacked[-1], source[begin:end])}, {pairs}}}"))
    elif new:
        changes.append(_appended(source, call, places, new))
    for begin, end, text in sorted(changes, reverse=True):
        source = source[:begin] + text + source[end:]
    return source


def _with_threads(source: str, tree: ast.Module, call: ast.Call, settings: LoaderSettings) -> str:
    """Return the source with a line that sets the number of threads, before the statement that makes the DataLoader."""
    imports = (each for node in tree.body if isinstance(node, ast.Import) for each in node.names)
    torch = next((each.asname or each.name for each in imports if each.name == "torch"), "")
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.stmt))
    around = (each for each in statements if each.lineno <= call.lineno <= (each.end_lineno or each.lineno))
    statement = max(around, key=lambda each: (each.lineno, each.col_offset))
    lines = source.split("\n")  # as Python counts them
    indent = lines[statement.lineno - 1][: statement.col_offset]
    if not torch or indent.strip():
        raise NoEditError(f"there is no place for {threads_for(settings)} in the script; call it before the training")
    end = "\r" if "\r\n" in source else ""
    lines.insert(statement.lineno - 1, f"{indent}{threads_for(settings, torch)}{end}")
    return "\n".join(lines)


def _in_parentheses(node: ast.expr, text: str) -> str:
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Dict, ast.Subscript)) else f"({text})"


def _given(call: ast.Call) -> dict[str, ast.expr]:
    """What a call gives for the arguments that may be set, by name or by place."""
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    by_place = {} if starred else {name: call.args[at] for name, at in POSITIONS.items() if at < len(call.args)}
    return by_place | {each.arg: each.value for each in call.keywords if each.arg}


def _appended(source: str, call: ast.Call, places: "_Places", new: Mapping[str, str]) -> tuple[int, int, str]:
    """The change that puts arguments behind the last one: in lines of their own where that has one."""
    arguments = [*call.args, *(each.value for each in call.keywords)]
    end = places.of(call)[1] - 1  # of the closing parenthesis
    added = [f"{name}={value}" for name, value in new.items()]
    if not arguments:
        return end, end, ", ".join(added)
    last_begin, last_end = max(map(places.of, arguments))
    begin_of_line = source.rfind("\n", 0, last_begin) + 1
    start = source[begin_of_line:last_begin]
    indent = start[: len(start) - len(start.lstrip())]
    after = source[last_end:end]
    has_comma = "," in "".join(_without_comment(each) for each in after.splitlines())
    own_lines = "\n" in after and begin_of_line > places.of(call)[0]
    if not own_lines:
        return last_end, last_end, ", " + ", ".join(added)
    newline = "\r\n" if "\r\n" in source else "\n"
    if has_comma:  # behind the comma and a comment
        at = source.index("\n", last_end) + 1
        return at, at, "".join(f"{indent}{each},{newline}" for each in added)
    return last_end, last_end, "".join(f",{newline}{indent}{each}" for each in added)


def _without_comment(line: str) -> str:
    return line.partition("#")[0]


class _Places:
    """Where the nodes of a source are in its text; Python counts bytes in lines."""

    def __init__(self, source: str) -> None:
        self._lines = [f"{each}\n" for each in source.split("\n")]  # as Python counts them
        self._begins = list(_sums(self._lines))

    def of(self, node: ast.expr) -> tuple[int, int]:
        """Return where a node begins and ends, as numbers of characters."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int, column: int) -> int:
        text = self._lines[line - 1].encode()[:column].decode()
        return self._begins[line - 1] + len(text)


def _sums(lines: list[str]) -> Iterator[int]:
    begin = 0
    for line in lines:
        yield begin
        begin += len(line)
