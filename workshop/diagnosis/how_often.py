"""Which line decides how often something is done: a condition of the loop, or a setting of a framework's trainer."""

import ast
import linecache
from collections.abc import Iterator
from functools import cache

from workshop.diagnosis.samples import Observations
from workshop.diagnosis.user_lines import Path
from workshop.profiles.stacks import Frame

OF_VALIDATION = ("val_check_interval", "check_val_every_n_epoch", "eval_steps", "eval_strategy")
OF_OTHER = ("save_steps", "logging_steps", "log_every_n_steps", "save_strategy")
"""The settings of Lightning's Trainer and of TrainingArguments in transformers, the most telling first."""

LEAVES = (ast.Return, ast.Continue)


def decided_by(observations: Observations, path: Path, validates: bool) -> Frame | None:
    """Return the line that decides how often the last line of a path is run; None if none was found.

    Args:
        observations: what was noted of the script.
        path: the frames of user code, outermost first.
        validates: whether it is a validation.
    """
    for frame in reversed(path):
        if line := _condition(frame.path, frame.line or 0):
            return Frame(frame.name, frame.path, line)
    names = OF_VALIDATION if validates else OF_OTHER
    for each in observations.settings:
        made = observations.user_frames_of(each.stack)
        if each.function == "Trainer" and made:
            line = _keyword(made[-1].path, made[-1].line or 0, names)
            line = line or (made[-1].line if validates else None)  # without arguments, a trainer validates, too
            return Frame(made[-1].name, made[-1].path, line) if line else None
    return None


@cache
def _tree(path: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return None


def _condition(path: str, line: int) -> int | None:
    """Return the line of the innermost condition on a count of steps that a line is run under."""
    tree = _tree(path)
    found = [each for each in _conditions(tree, line) if _counts(each.test)] if tree else []
    return max((each.lineno for each in found), default=None)


def _conditions(tree: ast.AST, line: int) -> Iterator[ast.If]:
    """Yield the conditions around a line, and those before it that leave its block."""
    for block in (child for _, child in ast.iter_fields(tree) if isinstance(child, list)):
        for number, each in enumerate(block):
            if not isinstance(each, ast.AST) or not _holds(each, line):
                continue
            before = block[:number]
            yield from (one for one in before if isinstance(one, ast.If) and isinstance(one.body[-1], LEAVES))
            if isinstance(each, ast.If) and not any(_holds(one, line) for one in each.orelse):
                yield each
            yield from _conditions(each, line)


def _holds(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", line + 1) <= line <= (getattr(node, "end_lineno", None) or 0)


def _counts(test: ast.expr) -> bool:
    """Whether a condition holds once in so many times."""
    return any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod) for each in ast.walk(test))


def _keyword(path: str, line: int, names: tuple[str, ...]) -> int | None:
    """Return the line of the first of these arguments in a call that begins at a line, or goes over it."""
    tree = _tree(path)
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and _holds(each, line)] if tree else []
    lines = {keyword.arg: keyword.value.lineno for call in calls for keyword in call.keywords}
    return next((lines[name] for name in names if name in lines), None)
