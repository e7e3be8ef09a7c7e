"""Finds the line of a function that puts something into a variable, or into what it leads to."""

import ast
import linecache
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from workshop.probe.observations import WireFrame

ADDS = ("append", "extend", "add", "appendleft", "update", "insert", "setdefault")
PUSHES = ("heappush", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right")
"""The functions that add to the list that they are given first."""

DROPS = ("pop", "popleft", "popitem", "clear", "remove")
"""The methods of a container that drop something."""

HOOKS = re.compile(r"\._\w+_hooks(_\w+)?$")
"""What a module keeps its hooks in."""

REGISTERS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook")
"""The methods of a module that add to it."""


class Assignment(NamedTuple):
    """A line that does so."""

    number: int
    function: str


def assignment_of(holder: str, file: str, function: str) -> Assignment | None:
    """Return the line that gives something to a holder such as "history.losses[...]"; None if the source shows none.

    Lines that add to what is there come first, as `total += loss` and `losses.append(loss)` do. Where the function has
    none, the whole file is searched: the last name of the holder may be filled in a method. Of a way through a
    container, such as "errors[...].__traceback__.loss", it is the container that is filled.
    """
    if (tree := _tree_of(file)) is None:
        return None
    parts = holder.split("[...]")
    containers = ["[...]".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]
    found = (_assignment(tree, each, function) for each in [*containers, holder])
    return next((each for each in found if each), None)


def filled_at(holder: str, frame: WireFrame) -> WireFrame:
    """Return the line that gives something to a holder; the frame whose variable it is if the source shows none."""
    function, file, _ = frame
    at = assignment_of(holder, file, function)
    return (at.function, file, at.number) if at else frame


def made_at(holder: str, frame: WireFrame) -> WireFrame:
    """Return the line that makes what is given to a holder: of `entry = image[0]; kept.append(entry)`, the first."""
    function, file, line = filled = filled_at(holder, frame)
    if (tree := _tree_of(file)) is None:
        return filled
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and each.lineno == line and each.args]
    names = {each.args[-1].id for each in calls if isinstance(each.args[-1], ast.Name)}
    around = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == function]
    before = [line for each in around for name in names for line in _assigns(each, name, True) if line < filled[2]]
    return function, file, max(before, default=line)


def given_at(holder: str, file: str, filled: Assignment) -> Assignment:
    """Return the line that gives a value to the method which fills a holder, if other objects of the class use it, too.

    Of `self.loss.update(loss.item())` and `self.entropy.update(entropy)`, the second has filled `entropy.value`.
    """
    owner = holder.partition("[...]")[0].rpartition(".")[0].rpartition(".")[2]
    nodes = ast.walk(tree) if owner and (tree := _tree_of(file)) else ()
    methods = [each.func for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
    of_method = [each for each in methods if each.attr == filled.function]
    own = [each.lineno for each in of_method if ast.unparse(each.value).rpartition(".")[2] == owner]
    is_shared = len(own) == 1 < len(of_method)
    return Assignment(own[0], _function_at(tree, own[0])) if is_shared and tree else filled


def returned_at(way: Sequence[str], frame: WireFrame) -> WireFrame:
    """Return the line of a function that makes a part of what it returns: of `y = make(); return x, y`, the first.

    Args:
        way: the keys, or the places, that lead to that part.
        frame: the function, with its first line, or that of a decorator.
    """
    name, file, first = frame
    tree = _tree_of(file)
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)] if tree else []
    named = [each for each in functions if each.name == name and each.lineno >= first]
    function = min(named, key=lambda each: each.lineno, default=None)
    returned = max(_returns(function), key=lambda each: each.lineno, default=None) if function else None
    part = _part(returned.value, way) if returned else None
    if function is None or part is None:
        return frame
    made = _assigns(function, part.id, True) if isinstance(part, ast.Name) else []
    return name, file, max((each for each in made if each < part.lineno), default=part.lineno)


def _returns(place: ast.AST) -> Iterator[ast.Return | ast.Yield]:
    """What a function returns or yields, and not the functions in it."""
    for each in ast.iter_child_nodes(place):
        if isinstance(each, ast.Return | ast.Yield):
            yield each
        elif not isinstance(each, ast.FunctionDef | ast.Lambda):
            yield from _returns(each)


def _part(value: ast.expr | None, way: Sequence[str]) -> ast.expr | None:
    """The part of an expression that a way leads to, as far as the source shows it."""
    for key in way:
        if isinstance(value, ast.Tuple | ast.List) and key.isdigit() and int(key) < len(value.elts):
            value = value.elts[int(key)]
        elif isinstance(value, ast.Dict):
            keys = [each.value if isinstance(each, ast.Constant) else None for each in value.keys]
            value = value.values[keys.index(key)] if key in keys else value
    return value


def called_at(frame: WireFrame) -> WireFrame | None:
    """Return the only line of its file that calls a function; None if there is none, or several."""
    function, file, _ = frame
    tree = _tree_of(file)
    nodes = ast.walk(tree) if tree else ()
    names = (function, f"self.{function}")
    calls = [each for each in nodes if isinstance(each, ast.Call) and ast.unparse(each.func) in names]
    calls = [each for each in calls if tree and _function_at(tree, each.lineno) != function]
    return (_function_at(tree, calls[0].lineno), file, calls[0].lineno) if tree and len(calls) == 1 else None


def is_limited(holder: str, file: str) -> bool:
    """Return whether the source asks for the length of a container before it adds or drops something, or clears it.

    Such a container grows only until it is full, as in `if len(pool) < 50: pool.append(x)`, or for a while.
    """
    names = re.sub(r"\[[^]]*\]", "", holder.partition("[...]")[0])
    if not names or (tree := _tree_of(file)) is None:
        return False
    exact, wanted = "." not in names, names.rpartition(".")[2]
    if any(_clears(each, wanted, exact) for each in ast.walk(tree)):
        return True
    branches = [each for each in ast.walk(tree) if isinstance(each, ast.If | ast.While)]
    return any(_compares_length(each.test, wanted, exact) and _changes(each, wanted, exact) for each in branches)


def _tree_of(file: str) -> ast.Module | None:
    """The source of a file, as far as it is there and can be read."""
    source = "".join(linecache.getlines(file)) if file else ""
    try:
        return ast.parse(source) if source else None
    except SyntaxError:
        return None


def _clears(node: ast.AST, name: str, exact: bool) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr == "clear" and _is(function.value, name, exact)


def _compares_length(test: ast.expr, name: str, exact: bool) -> bool:
    asked = [each.left for each in ast.walk(test) if isinstance(each, ast.Compare)]
    asked += [right for each in ast.walk(test) if isinstance(each, ast.Compare) for right in each.comparators]
    calls = [each for each in asked if isinstance(each, ast.Call) and ast.unparse(each.func) == "len" and each.args]
    return any(_is(each.args[0], name, exact) for each in calls)


def _changes(branch: ast.AST, name: str, exact: bool) -> bool:
    """Whether something is added to a container in a branch, or dropped of it."""
    dropped = any(
        isinstance(each, ast.Attribute) and each.attr in DROPS and _is(each.value, name, exact)
        for each in ast.walk(branch)
    )
    deleted = [target for each in ast.walk(branch) if isinstance(each, ast.Delete) for target in each.targets]
    is_deleted = any(isinstance(each, ast.Subscript) and _is(each.value, name, exact) for each in deleted)
    return dropped or is_deleted or bool(_adds(branch, name, exact)) or bool(_assigns(branch, name, exact))


def _assignment(tree: ast.Module, container: str, function: str) -> Assignment | None:
    """The line that gives something to a container, or to a variable."""
    names = HOOKS.sub("", re.sub(r"\[[^]]*\]", "", container).strip("."))
    if not names:
        return None
    own = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == function]
    places: list[ast.AST] = [*own, tree]
    wanted = names.rpartition(".")[2]
    for exact in (True, False):
        for place in places:
            for finds in (_adds, _assigns):
                if line := next((line for line in finds(place, names if exact else wanted, exact)), 0):
                    return Assignment(line, _function_at(tree, line))
    return None


def _adds(place: ast.AST, name: str, exact: bool) -> list[int]:
    found = []
    for node in ast.walk(place):
        if isinstance(node, ast.AugAssign) and _is(node.target, name, exact):
            found.append(node.lineno)
        if isinstance(node, ast.Call) and (_fills(node.func, name, exact) or _pushes(node, name, exact)):
            found.append(node.lineno)
        if isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Name | ast.Attribute | ast.Subscript) for each in node.targets
        ):
            reads = {ast.unparse(each) for each in ast.walk(node.value) if isinstance(each, ast.Name | ast.Attribute)}
            if any(_is(each, name, exact) for each in node.targets) and any(
                ast.unparse(each) in reads for each in node.targets
            ):
                found.append(node.lineno)
        if isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Subscript) and _is(each.value, name, exact) for each in node.targets
        ):
            found.append(node.lineno)
    return sorted(found)


def _fills(function: ast.expr, name: str, exact: bool) -> bool:
    """Whether a function is a method of a container by this name, which adds to it."""
    return (
        isinstance(function, ast.Attribute) and function.attr in ADDS + REGISTERS and _is(function.value, name, exact)
    )


def _pushes(call: ast.Call, name: str, exact: bool) -> bool:
    """Whether a call adds to a list by this name, as heapq does."""
    is_push = ast.unparse(call.func).rpartition(".")[2] in PUSHES
    return is_push and bool(call.args) and _is(call.args[0], name, exact)


def _assigns(place: ast.AST, name: str, exact: bool) -> list[int]:
    """The lines that assign something to a name; `= None` only says that there is nothing yet."""
    assigns = [each for each in ast.walk(place) if isinstance(each, ast.Assign) and ast.unparse(each.value) != "None"]
    return sorted(each.lineno for each in assigns if any(_is(target, name, exact) for target in each.targets))


def _is(node: ast.AST, name: str, exact: bool) -> bool:
    """Whether an expression is a name, subscripts left out; or, if not `exact`, has it as its last attribute."""
    written = re.sub(r"\[[^]]*\]", "", ast.unparse(node))
    return written == name if exact else written.rpartition(".")[2] == name and "." in written


def _function_at(tree: ast.AST, line: int) -> str:
    """The innermost function around a line."""
    around = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and each.lineno <= line <= (each.end_lineno or each.lineno)
    ]
    return max(around, key=lambda each: each.lineno).name if around else "<module>"
