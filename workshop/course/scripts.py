"""The participant's script: found, replaced by another one without being lost, and watched while it is edited."""

import ast
import itertools
import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from workshop import file_kind
from workshop.course.given_cases import require_script
from workshop.errors import WorkshopError
from workshop.experiment import STAMP
from workshop.parts import HOME, Part


def existing(script: Path, part: Part) -> Path:
    """Return the absolute path of a part's script.

    Raises:
        WorkshopError: it is not there, and the error says how to get it; or it is a file of another kind.
    """
    require_script(part)
    if script.is_file():
        file_kind.require_script(script, "name your script with --script")
        return script.absolute()
    if script == Path(part.script):
        elsewhere = "" if Path("train.py").is_file() else where_it_is()
        raise WorkshopError(f"there is no {script} here{elsewhere}; put it there with workshop start {part.name}")
    raise WorkshopError(f"there is no file {script.absolute()}; name your script with --script")


def where_it_is() -> str:
    """Return where the workshop's folder with train.py is, to be added to a sentence; "" if it has none."""
    return f"; the workshop's folder is {HOME}" if (HOME / "train.py").is_file() else ""


def is_same_code(one: Path, other: Path) -> bool:
    """Return whether two scripts are the same but for comments and blank space; one that cannot be parsed is not."""
    try:
        trees = [ast.dump(ast.parse(path.read_bytes())) for path in (one, other)]
    except (SyntaxError, ValueError):
        return False
    return trees[0] == trees[1]


def replace_script(script: Path, source: Path) -> Path | None:
    """Put a copy of a script in place of another one, as `replace_content` does."""
    return replace_content(script, source.read_bytes())


def replace_content(script: Path, content: bytes, part: str = "") -> Path | None:
    """Give a script another content, but not other rights; as it was, it is kept beside, with the date in its name.

    Args:
        script: the script.
        content: its new content.
        part: the part that the script, as it was, belongs to: its name goes before the date.

    Returns:
        The path under which it was kept; None if there was none or it was the same.

    Raises:
        OSError: the folder cannot be written.
    """
    backup = None
    if script.exists():
        if script.read_bytes() == content:
            return None  # and a profile of it stays valid
        names = filter(None, [script.stem, part, f"{datetime.now():{STAMP}}"])
        backup = _free(script.with_name(f"{'-'.join(names)}{script.suffix}"))
        script.rename(backup)
    script.write_bytes(content)
    if backup:
        shutil.copymode(backup, script)
    return backup


def changes(paths: Sequence[Path], interval_s: float = 1.0) -> Iterator[None]:
    """Yield once now, and then each time that the content of one of the files has changed.

    The files are read again and again, as notifications of the system do not reach WSL, containers and network folders,
    and the times of files cannot be trusted there. An editor may remove a file to write it anew, or write it in pieces:
    only content that stays the same for an interval counts.
    """
    known: list[bytes | None] | None = None
    while True:
        before = [_content(path) for path in paths]
        if before != known and before[0] is not None:
            if known is not None:
                time.sleep(interval_s)
                if [_content(path) for path in paths] != before:
                    continue
            known = before
            yield
        time.sleep(interval_s)


def _free(path: Path) -> Path:
    """Return the path, or the first one with a number that is not taken."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    return next(each for each in itertools.chain([path], numbered) if not each.exists())


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
