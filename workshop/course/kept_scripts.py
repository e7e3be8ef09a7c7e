"""The participant's scripts that another one has replaced, and those that passed a check: each belongs to a part.

A script that is replaced stays beside the new one as `train-part5-DATE.py`. One that passed the check of a part is
copied to `.workshop/scripts/train-part5.py`, as the participant may go on editing it.
"""

import re
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from workshop.course import given_cases, kept_checks, progress
from workshop.course.scripts import replace_content
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.parts import Part, all_parts

FOLDER = "scripts"
"""Of the copies of scripts that passed, in the folder of the state."""

_STAMP = r"\d{4}-\d\d-\d\dT\d\d\.\d\d\.\d\d"


@dataclass(frozen=True)
class KeptScript:
    """A script that was kept."""

    path: Path
    part: str
    """The part that it belongs to; "" if that is not known."""
    is_done: bool
    """Whether it is the copy of one that passed the check of its part."""

    @property
    def date(self) -> datetime:
        """When it was last edited."""
        return datetime.fromtimestamp(self.path.stat().st_mtime)


def replace(script: Path, content: bytes, state: State) -> Path | None:
    """Give a script another content, as `replace_content` does; the name of the one that is kept tells its part.

    One that was kept already is not kept again.
    """
    if not script.exists() or script.read_bytes() == content:
        return replace_content(script, content)
    present = script.read_bytes()
    if again := next((each.path for each in kept(state, script) if each.path.read_bytes() == present), None):
        script.write_bytes(content)
        return again
    return replace_content(script, content, part_of(state, script, present) or _part_at(state, script))


def keep_done(state: State, part: Part, script: Path, content: bytes) -> None:
    """Keep a script that has passed the check of a part; if that cannot be, say so in a line."""
    path = _done(state, script, part.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        print(f"cannot keep a copy of the script in {path}: {error.strerror}", file=sys.stderr)


def kept(state: State, script: Path) -> list[KeptScript]:
    """Return what was kept of a script: of each part first the one that passed, then the newest."""
    name = re.compile(rf"{re.escape(script.stem)}(?:-(part\d+))?-{_STAMP}(?:-\d+)?{re.escape(script.suffix)}")
    beside = [(path, name.fullmatch(path.name)) for path in script.absolute().parent.glob(f"{script.stem}-*")]
    found = [
        KeptScript(path, match[1] or part_of(state, script, path.read_bytes()), is_done=False)
        for path, match in beside
        if match
    ]
    copies = ((part.name, _done(state, script, part.name)) for part in all_parts())
    found += [KeptScript(path, part, is_done=True) for part, path in copies if path.is_file()]
    newest_first = sorted(found, key=lambda each: each.date, reverse=True)
    return sorted(newest_first, key=lambda each: (len(each.part), each.part, not each.is_done))


def of_part(state: State, script: Path, part: Part) -> KeptScript:
    """Return the script that was kept of a part: the one that passed, or else the newest.

    Raises:
        WorkshopError: none was kept.
    """
    all_kept = kept(state, script)
    if found := next((each for each in all_kept if each.part == part.name), None):
        return found
    nearest = next((each.part for each in reversed(all_kept) if each.part), "")
    other = f"; the last one that was kept is of {nearest}: workshop restore {nearest}" if nearest else ""
    other = other or f"; there is the solution: workshop solution {part.name} --write --yes"
    raise WorkshopError(f"no {script.name} of {part.name} was kept{other}")


def part_of(state: State, script: Path, content: bytes) -> str:
    """Return the part whose check last judged a script with this content, or whose solution it is; "" if none."""
    known = progress.fingerprint(content)
    judged = [each.part for each in kept_checks.read(state) if (each.script, each.fingerprint) == (script.name, known)]
    solutions = (part.name for part in all_parts() if part.solution.is_file() and part.solution.read_bytes() == content)
    return judged[-1] if judged else next(solutions, "")


def _part_at(state: State, script: Path) -> str:
    """Return the part that somebody is at with a script: the one checked last, or the next one if that is done."""
    parts = [part for part in all_parts() if given_cases.given(part, state).script == script.name]
    checked = [each.part for each in kept_checks.read(state) if each.script == script.name]
    names = [part.name for part in parts]
    first = names.index(checked[-1]) if checked and checked[-1] in names else 0
    is_open = (name for name in names[first:] if not state.get("parts", name, "done"))
    return next(is_open, names[-1] if names else "")


def _done(state: State, script: Path, part: str) -> Path:
    return state.path.with_name(FOLDER) / f"{script.stem}-{part}{script.suffix}"
