"""Which lines are watched for what they do, and what of their source says what they read and write."""

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from workshop.diagnosis.findings import MIN_SHARE_OF_STEP
from workshop.diagnosis.loading import Loading, weight
from workshop.diagnosis.timeline import Timeline
from workshop.diagnosis.user_lines import Path, Place, place_of, source_of
from workshop.probe.messages import WatchedLine

WITH_BODY = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try, ast.Match)
"""Statements that read nothing themselves, or that read as others do."""

GROWS = ("append", "extend", "add", "insert", "appendleft")
"""The methods of a container that only write to it."""

OPERATORS = ("torch", "numpy")
"""The libraries whose functions have no weights but those that they are given."""

PRODUCTS = ("matmul", "mm", "bmm", "baddbmm", "addmm", "einsum", "outer", "cdist")
"""The functions of torch and NumPy that are asked for a product, or for what each pair of rows gives."""

CONVERTERS = ("torch.tensor", "torch.as_tensor", "torch.Tensor", "torch.FloatTensor", "torch.LongTensor")
"""What makes a tensor of a sequence by going through all of its numbers, one after the other."""

LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def lines_to_watch(timeline: Timeline) -> tuple[WatchedLine, ...]:
    """Return the statements of the training that are watched; those of its own loop do not count together."""
    paths = [(each.path, each.weight_s) for each in timeline.samples]
    return _hot_lines(paths, sum(timeline.steps.durations_s), lambda place: _loop_within_step(timeline, place))


def loading_to_watch(loading: Loading) -> tuple[WatchedLine, ...]:
    """Return the statements that workers load with that are watched."""
    return _hot_lines(loading.user_paths(lambda _: True), weight(loading.busy), _loop_or_itself)


def _hot_lines(
    paths: list[tuple[Path, float]], of_s: float, loop_of: Callable[[Place], Place]
) -> tuple[WatchedLine, ...]:
    """Return the statements that most of some time goes into, with what they call, and the one behind each.

    Those of a loop count together.
    """
    weights: Counter[Place] = Counter()
    for path, weight_s in paths:
        for place in {place_of(frame) for frame in path}:
            weights[place] += weight_s  # type: ignore[assignment]
    loops = {place: loop_of(place) for place in weights}
    together: Counter[Place] = Counter()
    for place, weight_s in weights.items():
        together[loops[place]] += weight_s
    hot = [place for place, _ in weights.most_common() if together[loops[place]] >= MIN_SHARE_OF_STEP * of_s]
    behind = [(path, at) for path, line in hot if (at := reader_behind(path, line))]
    return tuple(filter(None, (watched_line(*place) for place in dict.fromkeys([*hot, *behind]))))


def _loop_or_itself(place: Place) -> Place:
    loop = loop_around(*place)
    return (place[0], loop.lineno) if loop else place


def _loop_within_step(timeline: Timeline, place: Place) -> Place:
    """Return the head of the innermost loop around a statement, or itself, if that is the loop of the training."""
    path, loop = place[0], loop_around(*place)
    is_training = loop is not None and timeline.trains_within(path, loop.lineno, loop.end_lineno or 0)
    return place if is_training else _loop_or_itself(place)


@cache
def watched_line(path: str, line: int) -> WatchedLine | None:
    """Return the statement that begins in a line, with what it reads and writes; None if there is none that does."""
    found = statement_of(path, line)
    if found is None or isinstance(found, WITH_BODY):
        return None
    last = source_of(path).statements[line].last
    reads = dict.fromkeys(name for head in _heads(found) for name in _read(head, frozenset()))
    return WatchedLine(path, line, last, tuple(reads), tuple(dict.fromkeys(_written(found))))


def statement_of(path: str, line: int) -> ast.stmt | None:
    """Return the innermost statement that begins in a line."""
    found = [each for each, _ in _statements(source_of(path).tree) if each.lineno == line]
    return found[-1] if found else None


@cache
def following(path: str, line: int) -> ast.stmt | None:
    """Return the statement behind one that begins in a line, in the same block, if neither has a body."""
    for each, block in _statements(source_of(path).tree):
        if each.lineno == line:
            both = block[block.index(each) :][:2]
            return None if len(both) < 2 or any(hasattr(one, "body") for one in both) else both[1]
    return None


@cache
def reader_behind(path: str, line: int) -> int | None:
    """Return the line of the first statement behind one, in the same block, that reads what it makes; else the next."""
    watched, behind = watched_line(path, line), following(path, line)
    if watched is None or behind is None:
        return None
    ways = tuple(f"{each}{mark}" for each in watched.writes for mark in ("[", "."))
    block = next(block for each, block in _statements(source_of(path).tree) if each is behind)
    for each in block[block.index(behind) :]:
        read = None if hasattr(each, "body") else watched_line(path, each.lineno)
        if read and any(name in watched.writes or name.startswith(ways) for name in read.reads):
            return each.lineno
    return behind.lineno


def loop_around(path: str, line: int) -> ast.stmt | None:
    """Return the innermost loop around a statement, in the same function."""
    return next(iter(loops_around(path, line)), None)


def loops_around(path: str, line: int) -> list[ast.stmt]:
    """Return the loops around a statement in the same function, the innermost first."""
    found = list[ast.stmt]()
    for each, _ in _statements(source_of(path).tree):
        if each.lineno < line <= (each.end_lineno or 0):
            found = [] if isinstance(each, WITH_BODY[:3]) else [each, *found]
    return [each for each in found if isinstance(each, LOOPS)]


def carried(path: str, line: int) -> frozenset[str]:
    """Return what a run of a statement in a loop reads of what the one before has made, other than to add to it."""
    statement, loop, watched = statement_of(path, line), loop_around(path, line), watched_line(path, line)
    if statement is None or watched is None:
        return frozenset()
    own = set[str]()
    match statement:
        case ast.AugAssign():
            own = {ast.unparse(statement.target)}
        case ast.Assign(value=ast.BinOp() as sum_of):
            own = {ast.unparse(each) for each in (sum_of.left, sum_of.right)}
    later = [each for each, _ in _statements(loop) if each.lineno >= line] if loop else [statement]
    written = {name for each in later for name in _written(each) if "[" not in name}
    return frozenset(written.intersection(watched.reads) - own)


@cache
def needed(path: str, line: int) -> frozenset[str]:
    """Return what a statement reads, and whose functions it calls, but for Python's own and those of `OPERATORS`.

    The variables of comprehensions are among it.
    """
    statement, watched = statement_of(path, line), watched_line(path, line)
    found = set(watched.reads) if watched else set[str]()
    for node in ast.walk(statement) if statement else ():
        match node:
            case ast.Call(func=ast.Attribute(value=owner)) | ast.Call(func=owner) if _is_way(owner):
                found.add(ast.unparse(owner))
            case ast.comprehension():
                found.update(each.id for each in ast.walk(node.target) if isinstance(each, ast.Name))
    known = frozenset(dir(builtins)) | _operators(path)
    return frozenset(each for each in found if each.partition(".")[0] not in known)


@cache
def goes_round(path: str, line: int) -> bool:
    """Return whether the comprehensions of a statement do its work, and only operators are given what they make."""
    known = frozenset(dir(builtins)) | _operators(path)
    return not any(
        any(isinstance(each, COMPREHENSIONS) for argument in call.args for each in ast.walk(argument))
        for call in ast.walk(statement_of(path, line) or ast.Pass())
        if isinstance(call, ast.Call) and _is_way(call.func) and ast.unparse(call.func).partition(".")[0] not in known
    )


@cache
def multiplies(path: str, line: int) -> bool:
    """Return whether a statement is a product of matrices."""
    return any(
        isinstance(getattr(node, "op", None), ast.MatMult)
        or (isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in PRODUCTS)
        for node in ast.walk(statement_of(path, line) or ast.Pass())
    )


@cache
def converted(path: str, line: int) -> frozenset[str]:
    """Return what a statement hands over to be made a tensor."""
    calls = [each for each in ast.walk(statement_of(path, line) or ast.Pass()) if isinstance(each, ast.Call)]
    return frozenset(ast.unparse(each.args[0]) for each in calls if each.args and ast.unparse(each.func) in CONVERTERS)


@cache
def _operators(path: str) -> frozenset[str]:
    """Return the names that a file imports from `OPERATORS`."""
    return frozenset(
        each.asname or each.name.partition(".")[0]
        for node in ast.walk(source_of(path).tree)
        for each in getattr(node, "names", ())
        if isinstance(each, ast.alias) and (getattr(node, "module", None) or each.name).partition(".")[0] in OPERATORS
    )


def _statements(node: ast.AST) -> Iterator[tuple[ast.stmt, list[ast.stmt]]]:
    """Yield each statement below a node, outer ones first, with the block that it is in."""
    for _, block in ast.iter_fields(node):
        for each in block if isinstance(block, list) else ():
            if isinstance(each, ast.stmt):
                yield each, block
            if isinstance(each, ast.AST):
                yield from _statements(each)


def _heads(statement: ast.stmt) -> list[ast.expr]:
    """Return the expressions of a statement that are not in its body."""
    match statement:
        case ast.For() | ast.AsyncFor():
            return [statement.iter]
        case ast.With() | ast.AsyncWith():
            return [each.context_expr for each in statement.items]
        case ast.Assign():
            return [*statement.targets, statement.value]
    return [each for _, each in ast.iter_fields(statement) if isinstance(each, ast.expr)]


def _read(node: ast.AST, inner: frozenset[str]) -> Iterator[str]:
    """Yield what an expression reads: the longest names, and what they are entries of; not the variables inside it."""
    match node:
        case ast.Lambda() | ast.Name(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
            return
        case ast.Name() | ast.Attribute() | ast.Subscript() if _is_way(node) and isinstance(node.ctx, ast.Load):
            if not {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} & inner:
                yield ast.unparse(node)
            if isinstance(node, ast.Subscript):
                yield from _read(node.value, inner)
                yield from _read(node.slice, inner)
        case ast.Call(func=ast.Attribute() as function):
            yield from _read(function, inner)
            is_self = isinstance(function.value, ast.Name) and function.value.id == "self"
            if not is_self and function.attr not in GROWS:
                yield from _read(function.value, inner)
            yield from _all_read([*node.args, *node.keywords], inner)
        case _ if isinstance(node, COMPREHENSIONS):
            own = {each.id for of in node.generators for each in ast.walk(of.target) if isinstance(each, ast.Name)}
            yield from _all_read(list(ast.iter_child_nodes(node)), inner | own)
        case _:
            yield from _all_read(list(ast.iter_child_nodes(node)), inner)


def _all_read(nodes: list[Any], inner: frozenset[str]) -> Iterator[str]:
    for each in nodes:
        yield from _read(each, inner)


def _is_way(node: ast.expr) -> bool:
    """Whether an expression is a name, with attributes and indexes."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name)


def _written(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement writes to; the variables of a loop are no work of its head."""
    match statement:
        case ast.Return():
            yield "return"
        case ast.Assign():
            targets: list[ast.expr] = statement.targets
        case ast.AugAssign() | ast.AnnAssign():
            targets = [statement.target]
        case _:
            return
    if not isinstance(statement, ast.Return):
        yield from (ast.unparse(each) for target in targets for each in _parts(target) if _is_way(each))


def _parts(target: ast.expr) -> list[ast.expr]:
    return (
        [each for part in target.elts for each in _parts(part)]
        if isinstance(target, ast.Tuple | ast.List)
        else [target]
    )
