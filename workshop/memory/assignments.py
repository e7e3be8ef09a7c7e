"""Finds the line that puts something into a variable, or into what it leads to; none where several may.

It is read from the source, as nothing else tells: what was filled before anybody looked is there already, and
tracemalloc knows the line in which an entry was made, not the one that keeps it, and of most tensors neither.
"""

import ast
import linecache
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from workshop.probe.memory.memory_notes import LRU_CACHE, HeldObject
from workshop.probe.observations import WireFrame

ADDS = ("append", "extend", "add", "appendleft", "extendleft", "update", "insert", "setdefault", "put", "put_nowait")
PUSHES = ("heappush", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right")
"""The functions that add to the list that they are given first."""

DROPS = ("pop", "popleft", "popitem", "clear", "remove")
"""The methods of a container that drop something."""

HOOKS = re.compile(r"\._\w+_hooks(_\w+)?$")
"""What a module keeps its hooks in."""

REGISTERS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook")
"""The methods of a module that add to it."""

EMPTY = ("None", "[]", "{}", "()", "list()", "dict()", "set()", "deque()", "OrderedDict()", "Counter()")
"""What is given to a variable that is filled later, with `defaultdict(...)` and `deque(maxlen=...)`."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Around = tuple[Function | ast.ClassDef, ...]
"""The functions and classes around a place in the source, outermost first."""


class _Place(NamedTuple):
    """A line that gives something to what is asked for."""

    line: int
    expression: str
    """What the line gives it to, as it is written there."""
    file: str
    around: Around


def assignment_of(holder: str, frames: Sequence[WireFrame], grows: bool = False) -> WireFrame | None:
    """Return the line that gives something to a holder such as "history.losses[...]"; None if that cannot be told.

    Lines that add to what is there come first, as `total += loss` and `losses.append(loss)` do. Of a way through a
    container, such as "errors[...].__traceback__.loss", it is the container that is filled. Where several lines may
    fill it, no line is better than a wrong one.

    Args:
        holder: a variable, and the way from it.
        frames: the function of the variable, then the classes of what has the last attribute on the way. Their files
            are searched.
        grows: only lines that add to what is there will do.
    """
    container, is_container, _ = holder.partition(".__")[0].rpartition("[...]")
    names = HOOKS.sub("", container if is_container else holder.partition(".__")[0])
    while names.endswith("[...]"):
        names = names.removesuffix("[...]")
    plain = re.sub(r"\[[^]]*\]", "", names)
    if not plain or not frames:
        return None
    for gives in (_adds,) if grows else (_adds, _assigns):
        for searches in ((_of_variable, _handed_on, _of_class), (_of_others,)):
            if found := [each for search in searches for each in search(gives, plain, frames)]:
                return _only(found, names)
    return None


def filled_at(holder: str, frames: Sequence[WireFrame], otherwise: WireFrame | None = None) -> WireFrame:
    """Return the line that gives something to a holder; if that cannot be told, another, or line 0 of its function."""
    return assignment_of(holder, frames) or otherwise or (*frames[0][:2], 0)


def object_filled_at(held: HeldObject, grows: bool = False) -> WireFrame:
    """Return the line that fills a container or an array, or line 0; of a function's cache, that of the function."""
    if held.container == LRU_CACHE:
        return held.stack[0]
    holder = held.holder if held.dtype else f"{held.holder}[...]"
    return assignment_of(holder, held.stack, grows) or (*held.stack[0][:2], 0)


def _only(found: list[_Place], names: str) -> WireFrame | None:
    """The only place of several, or the first of two that are branches of one condition."""
    same_keys = [each for each in found if each.expression == names]
    found = same_keys or found
    lines = {(each.file, each.line) for each in found}
    first = min(found, key=lambda each: each.line)
    if len(lines) > 1 and not _are_branches(found):
        return None
    functions = [each.name for each in first.around if isinstance(each, Function)]
    return functions[-1] if functions else "<module>", first.file, first.line


def _are_branches(found: list[_Place]) -> bool:
    """Whether each place is in another branch of one `if`."""
    tree = _tree_of(found[0].file) if len({each.file for each in found}) == 1 else None
    for each in ast.walk(tree) if tree else ():
        if isinstance(each, ast.If) and each.orelse:
            branches = [_lines_of(each.body), _lines_of(each.orelse)]
            of_branch = [[place.line in branch for place in found] for branch in branches]
            if len(found) == 2 and all(sum(of) == 1 for of in of_branch) and of_branch[0] != of_branch[1]:
                return True
    return False


def _lines_of(body: list[ast.stmt]) -> range:
    return range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)


Gives = Callable[[ast.AST, Callable[[ast.expr], bool]], "ast.expr | None"]


def _of_variable(gives: Gives, names: str, frames: Sequence[WireFrame]) -> Iterator[_Place]:
    """The places in the function of a variable, or where a module's variable is seen."""
    root = names.partition(".")[0]
    function, file, line = frames[0]
    tree = _tree_of(file)
    own = _functions(tree, function, line)
    if not own and function != "<module>" and not function.startswith("<"):
        return
    for node, around in _walk(tree):
        inside = [each for each in around if isinstance(each, Function)]
        within = [inside[inside.index(each) + 1 :] for each in own if each in inside] if own else [inside]
        if within and not any(_binds(each, root) or _is_given(each, root) for each in within[0]):
            yield from _given(gives, node, around, names, file)


def _handed_on(gives: Gives, names: str, frames: Sequence[WireFrame]) -> Iterator[_Place]:
    """The places in functions of the same file that are given the variable under the same name."""
    root, file = names.partition(".")[0], frames[0][1]
    for node, around in _walk(_tree_of(file)):
        inside = [each for each in around if isinstance(each, Function)]
        if root != "self" and inside and _is_given(inside[-1], root):
            yield from _given(gives, node, around, names, file)


def _of_class(gives: Gives, names: str, frames: Sequence[WireFrame]) -> Iterator[_Place]:
    """The places in the methods of the classes of what has it as an attribute."""
    last = names.rpartition(".")[2]
    for name, file, _ in frames[1:] if "." in names else ():
        for node, around in _walk(_tree_of(file)):
            if around and _is_method(around, name):
                yield from _given(gives, node, around, f"{_first_of(around)}.{last}", file)


def _of_others(gives: Gives, names: str, frames: Sequence[WireFrame]) -> Iterator[_Place]:
    """The places outside of these classes, which know what has it by another name."""
    last = names.rpartition(".")[2]
    classes = {name for name, _, _ in frames[1:]}
    for file in dict.fromkeys(file for _, file, _ in frames) if "." in names else ():
        for node, around in _walk(_tree_of(file)):
            is_it = _ends_with(last, bool(classes))
            if expression := gives(node, is_it):
                yield _Place(node.lineno, ast.unparse(expression), file, around)  # type: ignore[attr-defined]


def _ends_with(last: str, are_classes_known: bool) -> Callable[[ast.expr], bool]:
    def is_it(node: ast.expr) -> bool:
        written = _plain(node)
        is_of_other_class = are_classes_known and written == f"self.{last}"
        return "." in written and written.rpartition(".")[2] == last and not is_of_other_class

    return is_it


def _given(gives: Gives, node: ast.AST, around: Around, names: str, file: str) -> Iterator[_Place]:
    """The place, if a node gives something to a name, or to another name that its function has for the same."""
    aliases = _aliases(around[-1], names) if around and isinstance(around[-1], Function) else set[str]()
    expression = gives(node, lambda each: _plain(each) == names or _plain(each) in aliases)
    is_renamed = isinstance(node, ast.Assign) and isinstance(expression, ast.Name) and expression.id in aliases
    if expression is not None and not is_renamed:
        yield _Place(node.lineno, ast.unparse(expression), file, around)  # type: ignore[attr-defined]


def _aliases(function: ast.AST, names: str) -> set[str]:
    assigns = [each for each in ast.walk(function) if isinstance(each, ast.Assign) and len(each.targets) == 1]
    same = [
        each.targets[0]
        for each in assigns
        if isinstance(each.value, ast.Name | ast.Attribute) and _plain(each.value) == names
    ]
    return {each.id for each in same if isinstance(each, ast.Name)}


def _walk(node: ast.AST | None, around: Around = ()) -> Iterator[tuple[ast.AST, Around]]:
    """The nodes of a source, each with the functions and classes around it."""
    for child in ast.iter_child_nodes(node) if node else ():
        yield child, around
        yield from _walk(child, (*around, child) if isinstance(child, Function | ast.ClassDef) else around)


def _functions(tree: ast.AST | None, name: str, line: int) -> list[Function]:
    """The functions of a name; if one of them has the line, that one."""
    named = [each for each in ast.walk(tree) if isinstance(each, Function) and each.name == name] if tree else []
    at = [each for each in named if each.lineno <= line <= (each.end_lineno or each.lineno)]
    return at or named


def _binds(function: Function, name: str) -> bool:
    """Whether a function has a variable of its own by this name."""
    nodes = [each for each, around in _walk(function) if not any(isinstance(one, Function) for one in around)]
    is_elsewhere = any(isinstance(each, ast.Global | ast.Nonlocal) and name in each.names for each in nodes)
    stored = any(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in nodes)
    return stored and not is_elsewhere


def _is_given(function: Function, name: str) -> bool:
    of = function.args
    return name in [each.arg for each in (*of.posonlyargs, *of.args, *of.kwonlyargs)]


def _is_method(around: Around, name: str) -> bool:
    """Whether the innermost class around a place has this qualified name."""
    classes = [number for number, each in enumerate(around) if isinstance(each, ast.ClassDef)]
    inside = ".".join(each.name for each in around[: classes[-1] + 1]) if classes else ""
    return bool(inside) and inside == name.replace(".<locals>", "") and len(around) > classes[-1] + 1


def _first_of(around: Around) -> str:
    """What the method at a place calls its object."""
    classes = [number for number, each in enumerate(around) if isinstance(each, ast.ClassDef)]
    method = around[classes[-1] + 1]
    names = [each.arg for each in (*method.args.posonlyargs, *method.args.args)] if isinstance(method, Function) else []
    return names[0] if names else "self"


def made_at(holder: str, frames: Sequence[WireFrame], otherwise: WireFrame) -> WireFrame:
    """Return the line that makes what is given to a holder: of `entry = image[0]; kept.append(entry)`, the first."""
    function, file, line = filled = assignment_of(holder, frames) or otherwise
    if filled == otherwise or (tree := _tree_of(file)) is None:
        return filled
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and each.lineno == line and each.args]
    names = {each.args[-1].id for each in calls if isinstance(each.args[-1], ast.Name)}
    around = _functions(tree, function, line)
    before = [at for each in around for name in names for at in _lines_assigning(each, name) if at < line]
    return function, file, max(before, default=line)


def given_at(holder: str, filled: WireFrame) -> WireFrame:
    """Return the line that gives a value to the method which fills a holder, if other objects of the class use it, too.

    Of `self.loss.update(loss.item())` and `self.entropy.update(entropy)`, the second has filled `entropy.value`.
    """
    owner = holder.partition("[...]")[0].rpartition(".")[0].rpartition(".")[2]
    function, file, _ = filled
    nodes = ast.walk(tree) if owner and (tree := _tree_of(file)) else ()
    methods = [each.func for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
    of_method = [each for each in methods if each.attr == function]
    own = [each.lineno for each in of_method if ast.unparse(each.value).rpartition(".")[2] == owner]
    is_shared = len(own) == 1 < len(of_method)
    return (_function_at(tree, own[0]), file, own[0]) if is_shared and tree else filled


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
    made = _lines_assigning(function, part.id) if isinstance(part, ast.Name) else []
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


def is_limited(holder: str, frames: Sequence[WireFrame]) -> bool:
    """Return whether the source asks for the length of a container before it adds or drops something, or clears it.

    Such a container grows only until it is full, as in `if len(pool) < 50: pool.append(x)`, or for a while.
    """
    names = re.sub(r"\[[^]]*\]", "", holder.partition("[...]")[0])
    is_it = _ends_with(names.rpartition(".")[2], False) if "." in names else lambda each: _plain(each) == names
    for tree in map(_tree_of, dict.fromkeys(file for _, file, _ in frames)) if names else ():
        nodes = list(ast.walk(tree)) if tree else []
        branches = [each for each in nodes if isinstance(each, ast.If | ast.While)]
        if any(_clears(each, is_it) for each in nodes):
            return True
        if any(_compares_length(each.test, is_it) and _changes(each, is_it) for each in branches):
            return True
    return False


def _tree_of(file: str) -> ast.Module | None:
    """The source of a file, as far as it is there and can be read."""
    return _parsed("".join(linecache.getlines(file)) if file else "")


@lru_cache(maxsize=16)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source) if source else None
    except SyntaxError:
        return None


def _clears(node: ast.AST, is_it: Callable[[ast.expr], bool]) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr == "clear" and is_it(function.value)


def _compares_length(test: ast.expr, is_it: Callable[[ast.expr], bool]) -> bool:
    asked = [each.left for each in ast.walk(test) if isinstance(each, ast.Compare)]
    asked += [right for each in ast.walk(test) if isinstance(each, ast.Compare) for right in each.comparators]
    calls = [each for each in asked if isinstance(each, ast.Call) and ast.unparse(each.func) == "len" and each.args]
    return any(is_it(each.args[0]) for each in calls)


def _changes(branch: ast.AST, is_it: Callable[[ast.expr], bool]) -> bool:
    """Whether something is added to a container in a branch, or dropped of it."""
    nodes = list(ast.walk(branch))
    dropped = any(isinstance(each, ast.Attribute) and each.attr in DROPS and is_it(each.value) for each in nodes)
    deleted = [target for each in nodes if isinstance(each, ast.Delete) for target in each.targets]
    is_deleted = any(isinstance(each, ast.Subscript) and is_it(each.value) for each in deleted)
    return dropped or is_deleted or any(_adds(each, is_it) or _assigns_any(each, is_it) for each in nodes)


def _adds(node: ast.AST, is_it: Callable[[ast.expr], bool]) -> ast.expr | None:
    """What a node adds something to, if it is that."""
    asked: Sequence[ast.expr] = ()
    if isinstance(node, ast.AugAssign):
        asked = [node.target]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDS + REGISTERS:
        asked = [node.func.value]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in PUSHES:
        asked = node.args[:1]
    elif isinstance(node, ast.Assign):
        reads = {ast.unparse(each) for each in ast.walk(node.value) if isinstance(each, ast.Name | ast.Attribute)}
        asked = [each for each in _targets(node) if isinstance(each, ast.Subscript) or _plain(each) in reads]
    return next((each for each in asked if is_it(each)), None)


def _assigns(node: ast.AST, is_it: Callable[[ast.expr], bool]) -> ast.expr | None:
    """What a node assigns something to, if it is that; `= []` only says that there is nothing yet."""
    found = _assigns_any(node, is_it)
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    written = ast.unparse(value).rpartition("collections.")[2] if value else "None"
    is_empty = written in EMPTY or written.startswith(("defaultdict(", "deque(maxlen"))
    return None if is_empty else found


def _assigns_any(node: ast.AST, is_it: Callable[[ast.expr], bool]) -> ast.expr | None:
    """The same, whatever is assigned."""
    if isinstance(node, ast.AnnAssign):
        return node.target if is_it(node.target) else None
    return next((each for each in _targets(node) if is_it(each)), None) if isinstance(node, ast.Assign) else None


def _targets(node: ast.Assign) -> list[ast.expr]:
    """What is assigned to, each of several at once by itself."""
    found = list[ast.expr]()
    for each in node.targets:
        found += each.elts if isinstance(each, ast.Tuple | ast.List) else [each]
    return found


def _lines_assigning(place: ast.AST, name: str) -> list[int]:
    nodes = (each for each in ast.walk(place) if _assigns(each, lambda one: _plain(one) == name))
    return sorted(each.lineno for each in nodes if isinstance(each, ast.stmt))


def _plain(node: ast.expr) -> str:
    """An expression as it is written, subscripts left out."""
    return re.sub(r"\[[^]]*\]", "", ast.unparse(node))


def _function_at(tree: ast.AST, line: int) -> str:
    """The innermost function around a line."""
    around = [
        each
        for each in ast.walk(tree)
        if isinstance(each, Function) and each.lineno <= line <= (each.end_lineno or each.lineno)
    ]
    return max(around, key=lambda each: each.lineno).name if around else "<module>"
