"""Finds the line that puts something into a variable, or into what it leads to; none where several may.

It is read from the source, as nothing else tells: what was filled before anybody looked is there already, and
tracemalloc knows the line in which an entry was made, not the one that keeps it, and of most tensors neither.
"""

import ast
import linecache
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from workshop.probe.memory.memory_notes import LRU_CACHE, HeldObject
from workshop.probe.observations import WireFrame

ADDS = (
    *("append", "extend", "add", "appendleft", "extendleft", "update", "insert", "setdefault", "put", "put_nowait"),
    *("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"),
)
"""The methods of a container that add to it, and those of a module that add to its hooks."""

PUSHES = ("heappush", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right")
"""The functions that add to the list that they are given first."""

DROPS = ("pop", "popleft", "popitem", "remove")
"""The methods of a container that drop something; `clear` drops all."""

HOOKS = re.compile(r"\._\w+_hooks(_\w+)?$")
"""What a module keeps its hooks in."""

EMPTY = re.compile(
    r"None|\[\]|\{\}|\(\)|(list|dict|set)\(\)"
    r"|(collections\.)?((deque|OrderedDict|Counter)\(\)|defaultdict\(.*|deque\(maxlen.*)"
)
"""What is given to a variable that is filled later."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Around = tuple[Function | ast.ClassDef, ...]
"""The functions and classes around a place in the source, outermost first."""


class Does(Enum):
    """What a line does to a variable, or to what it leads to."""

    ADDS = auto()
    ASSIGNS = auto()
    EMPTIES = auto()
    """It assigns what is filled later, such as `[]`."""
    DROPS = auto()
    CLEARS = auto()


class Use(NamedTuple):
    """A place in the source at which something is done to a variable, or to what it leads to."""

    does: Does
    written: str
    """The variable, and the way from it, as they are written there."""
    ways: frozenset[str]
    """The same without subscripts, with what other names of the function stand for, and in a method as
    "Tracker.history"."""
    file: str
    line: int
    around: Around
    owner: Function | None
    """The function whose variable it is; None for one of the module."""


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
    way = holder.partition(".__")[0]
    names = re.sub(r"(\[\.\.\.\])+$", "", HOOKS.sub("", way.rpartition("[...]")[0] or way))
    if not (plain := _plain(names)) or not frames:
        return None
    uses = [use for file in dict.fromkeys(file for _, file, _ in frames) for use in _uses(file)]
    for does in (Does.ADDS,) if grows else (Does.ADDS, Does.ASSIGNS):
        given = [each for each in uses if each.does is does]
        found = [each for each in given if _is_of_class(each, plain, frames) or _is_of_variable(each, plain, frames[0])]
        if found := found or [each for each in given if _is_of_others(each, plain, frames)]:
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


def is_limited(holder: str, frames: Sequence[WireFrame]) -> bool:
    """Return whether the source asks for the length of a container before it adds or drops something, or clears it.

    Such a container grows only until it is full, as in `if len(pool) < 50: pool.append(x)`, or for a while.
    """
    names = _plain(holder.partition("[...]")[0])
    for file in dict.fromkeys(file for _, file, _ in frames) if names else ():
        uses = [each for each in _uses(file) if _ends_alike(each.written, names)]
        if any(each.does is Does.CLEARS for each in uses):
            return True
        branches = [each for each, _ in _nodes(file) if isinstance(each, ast.If | ast.While)]
        asking = [_lines_of([each]) for each in branches if any(_ends_alike(of, names) for of in _lengths(each.test))]
        if any(use.line in lines for lines in asking for use in uses):
            return True
    return False


def made_at(holder: str, frames: Sequence[WireFrame], otherwise: WireFrame) -> WireFrame:
    """Return the line that makes what is given to a holder: of `entry = image[0]; kept.append(entry)`, the first."""
    function, file, line = filled = assignment_of(holder, frames) or otherwise
    calls = [each for each, _ in _nodes(file) if isinstance(each, ast.Call) and each.lineno == line]
    names = {each.id for call in calls for each in call.args[-1:] if isinstance(each, ast.Name)}
    if filled == otherwise or not names:
        return filled
    around = _functions(file, function, line)
    before = [at for each in around for name in names for at in _assigned_in(file, each, name) if at < line]
    return function, file, max(before, default=line)


def given_at(holder: str, filled: WireFrame) -> WireFrame:
    """Return the line that gives a value to the method which fills a holder, if other objects of the class use it, too.

    Of `self.loss.update(loss.item())` and `self.entropy.update(entropy)`, the second has filled `entropy.value`.
    """
    owner = holder.partition("[...]")[0].rpartition(".")[0].rpartition(".")[2]
    method, file, _ = filled
    of_method = _calls(file, lambda called: bool(owner) and called.endswith(f".{method}"))
    own = [at for called, at in of_method if called.split(".")[-2] == owner]
    return own[0] if len(own) == 1 < len(of_method) else filled


def called_at(frame: WireFrame) -> WireFrame | None:
    """Return the only line of its file that calls a function; None if there is none, or several."""
    function, file, _ = frame
    calls = [at for _, at in _calls(file, lambda called: called in (function, f"self.{function}"))]
    own = [each for each in calls if each[0] != function]
    return own[0] if len(own) == 1 else None


def returned_at(way: Sequence[str], frame: WireFrame) -> WireFrame:
    """Return the line of a function that makes a part of what it returns: of `y = make(); return x, y`, the first.

    Args:
        way: the keys, or the places, that lead to that part.
        frame: the function, with its first line, or that of a decorator.
    """
    name, file, first = frame
    functions = [each for each, _ in _nodes(file) if isinstance(each, ast.FunctionDef) and each.name == name]
    function = min((each for each in functions if each.lineno >= first), key=lambda each: each.lineno, default=None)
    returned = [
        each
        for each, around in _nodes(file)
        if isinstance(each, ast.Return | ast.Yield) and function is not None and around[-1:] == (function,)
    ]
    part = _part(max(returned, key=lambda each: each.lineno).value, way) if returned else None
    if function is None or part is None:
        return frame
    made = _assigned_in(file, function, part.id) if isinstance(part, ast.Name) else []
    return name, file, max((each for each in made if each < part.lineno), default=part.lineno)


def _part(value: ast.expr | None, way: Sequence[str]) -> ast.expr | None:
    """The part of an expression that a way leads to, as far as the source shows it."""
    for key in way:
        if isinstance(value, ast.Tuple | ast.List) and key.isdigit() and int(key) < len(value.elts):
            value = value.elts[int(key)]
        elif isinstance(value, ast.Dict):
            keys = [each.value if isinstance(each, ast.Constant) else None for each in value.keys]
            value = value.values[keys.index(key)] if key in keys else value
    return value


# Which of the places is meant


def _only(found: list[Use], names: str) -> WireFrame | None:
    """The only place of several, or the first of two that are branches of one condition."""
    found = [each for each in found if each.written == names] or found  # those with the same keys
    first = min(found, key=lambda each: each.line)
    if len({(each.file, each.line) for each in found}) > 1 and not _are_branches(found):
        return None
    return _name(first.around), first.file, first.line


def _are_branches(found: list[Use]) -> bool:
    """Whether each of two places is in another branch of one `if`."""
    for each, _ in _nodes(found[0].file) if len({use.file for use in found}) == 1 else ():
        if isinstance(each, ast.If) and each.orelse:
            in_first, in_second = ([use.line in _lines_of(of) for use in found] for of in (each.body, each.orelse))
            if len(found) == 2 and sum(in_first) == sum(in_second) == 1 and in_first != in_second:
                return True
    return False


def _is_of_variable(use: Use, names: str, frame: WireFrame) -> bool:
    """Whether this is in the function of a variable, where a module's is seen, or in one that is given it so named."""
    function, file, line = frame
    if use.file != file or names not in use.ways:
        return False
    root = names.partition(".")[0]
    if use.owner and use.owner is _functions_of(use.around)[0] and root != "self" and root in _given(use.owner):
        return True
    if own := _functions(file, function, line):
        return any(each in own for each in use.around[use.around.index(use.owner) if use.owner else 0 :])
    return use.owner is None and function.startswith("<")


def _is_of_class(use: Use, names: str, frames: Sequence[WireFrame]) -> bool:
    """Whether this is in a method of one of the classes of what has it as an attribute."""
    last = names.rpartition(".")[2]
    classes = [(name.replace(".<locals>", ""), file) for name, file, _ in frames[1:] if "." in names]
    return any(use.file == file and f"{name}.{last}" in use.ways for name, file in classes)


def _is_of_others(use: Use, names: str, frames: Sequence[WireFrame]) -> bool:
    """Whether this is outside of these classes, where what has it is known by another name."""
    is_of_other_class = len(frames) > 1 and _plain(use.written) == f"self.{names.rpartition('.')[2]}"
    return "." in names and _ends_alike(use.written, names) and not is_of_other_class


def _ends_alike(written: str, names: str) -> bool:
    """Whether two ways end with the same attribute, or two variables have the same name."""
    written = _plain(written)
    if "." not in names:
        return written == names
    return "." in written and written.rpartition(".")[2] == names.rpartition(".")[2]


# What the source says


@lru_cache(maxsize=16)
def _nodes(file: str) -> list[tuple[ast.AST, Around]]:
    """The nodes of a file, as far as it is there and can be read, with the functions and classes around each."""

    def below(node: ast.AST, around: Around) -> Iterator[tuple[ast.AST, Around]]:
        for child in ast.iter_child_nodes(node):
            yield child, around
            yield from below(child, (*around, child) if isinstance(child, Function | ast.ClassDef) else around)

    try:
        return [*below(ast.parse("".join(linecache.getlines(file)) if file else ""), ())]
    except SyntaxError:
        return []


@lru_cache(maxsize=16)
def _uses(file: str) -> list[Use]:
    bound, found = _bound(file), []
    for node, around in _nodes(file):
        for does, to in _done(node):
            written = ast.unparse(to)
            root = re.split(r"[.\[]", written)[0]
            owner = next((each for each in _functions_of(around) if (each, root) in bound), None)
            ways, line = _ways(written, around, does is Does.ADDS), node.lineno  # type: ignore[attr-defined]
            found.append(Use(does, written, ways, file, line, around, owner))
    return found


def _bound(file: str) -> set[tuple[Function, str]]:
    """The functions of a file, with each variable that is one of its own, or that it is given."""
    here = [(inside[0], each) for each, around in _nodes(file) if (inside := _functions_of(around))]
    stored = {(at, each.id) for at, each in here if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    given = {(at, each.arg) for at, each in here if isinstance(each, ast.arg)}
    elsewhere = {(at, name) for at, each in here if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}
    return (stored | given) - elsewhere


def _given(function: Function) -> list[str]:
    return [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def _ways(written: str, around: Around, adds: bool) -> frozenset[str]:
    ways = {_plain(written)}
    if around and adds:
        ways |= {value for name, value in _aliases(around[-1]) if name in ways}
    in_class = [number for number, each in enumerate(around) if isinstance(each, ast.ClassDef)]
    method = around[in_class[-1] + 1] if in_class and len(around) > in_class[-1] + 1 else None
    if isinstance(method, Function) and (given := _given(method)):
        inside = ".".join(each.name for each in around[: in_class[-1] + 1])
        ways |= {f"{inside}.{each.partition('.')[2]}" for each in ways if each.startswith(f"{given[0]}.")}
    return frozenset(ways)


@lru_cache(maxsize=256)
def _aliases(function: ast.AST) -> set[tuple[str, str]]:
    """The variables that are other names for something, each with that: of `add = self.rows`, add and self.rows."""
    assigns = [each for each in ast.walk(function) if isinstance(each, ast.Assign) and len(each.targets) == 1]
    same = [each for each in assigns if isinstance(each.value, ast.Name | ast.Attribute)]
    return {(ast.unparse(each.targets[0]), _plain(ast.unparse(each.value))) for each in same}


def _done(node: ast.AST) -> Iterator[tuple[Does, ast.expr]]:
    """What a node does, and to what."""
    match node:
        case ast.AugAssign(target=target):
            yield Does.ADDS, target
        case ast.Call(func=ast.Attribute(attr=name, value=to)) if name in ADDS:
            yield Does.ADDS, to
        case ast.Call(func=ast.Attribute(attr=name, value=to)) if name in DROPS:
            yield Does.DROPS, to
        case ast.Call(func=ast.Attribute(attr="clear", value=to)):
            yield Does.CLEARS, to
        case ast.Call(func=function, args=[to, *_]) if ast.unparse(function).rpartition(".")[2] in PUSHES:
            yield Does.ADDS, to
        case ast.Delete(targets=targets):
            yield from ((Does.DROPS, each.value) for each in targets if isinstance(each, ast.Subscript))
        case ast.Assign(targets=targets, value=value):
            reads = {ast.unparse(each) for each in ast.walk(value) if isinstance(each, ast.Name | ast.Attribute)}
            for one in targets:
                for each in one.elts if isinstance(one, ast.Tuple | ast.List) else [one]:
                    if isinstance(each, ast.Subscript) or _plain(ast.unparse(each)) in reads:
                        yield Does.ADDS, each
                    yield _assigns(value), each
        case ast.AnnAssign(target=target, value=filled):
            yield _assigns(filled), target


def _assigns(value: ast.expr | None) -> Does:
    return Does.EMPTIES if value is None or EMPTY.fullmatch(ast.unparse(value)) else Does.ASSIGNS


def _assigned_in(file: str, function: Function, name: str) -> list[int]:
    """The lines of a function that assign something to a variable."""
    own = [each for each in _uses(file) if function in each.around and _plain(each.written) == name]
    return [each.line for each in own if each.does is Does.ASSIGNS]


def _calls(file: str, is_it: Callable[[str], bool]) -> list[tuple[str, WireFrame]]:
    """The calls of some functions, each as it is written, and where it is."""
    calls = [(each, around) for each, around in _nodes(file) if isinstance(each, ast.Call)]
    named = [(ast.unparse(each.func), (_name(around), file, each.lineno)) for each, around in calls]
    return [each for each in named if is_it(each[0])]


def _lengths(test: ast.expr) -> Iterator[str]:
    """Yield what a condition compares the length of."""
    for each in ast.walk(test):
        for side in (each.left, *each.comparators) if isinstance(each, ast.Compare) else ():
            if isinstance(side, ast.Call) and ast.unparse(side.func) == "len" and side.args:
                yield ast.unparse(side.args[0])


def _functions(file: str, name: str, line: int) -> list[Function]:
    """The functions of a name; if one of them has the line, that one."""
    named = [each for each, _ in _nodes(file) if isinstance(each, Function) and each.name == name]
    return [each for each in named if line in _lines_of([each])] or named


def _functions_of(around: Around) -> list[Function]:
    """The functions around a place, innermost first."""
    return [each for each in reversed(around) if isinstance(each, Function)]


def _name(around: Around) -> str:
    return next((each.name for each in _functions_of(around)), "<module>")


def _lines_of(body: Sequence[ast.stmt]) -> range:
    return range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)


def _plain(written: str) -> str:
    """A way without its subscripts."""
    return re.sub(r"\[[^]]*\]", "", written)
