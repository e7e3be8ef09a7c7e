"""All that `workshop report` shows: drawn from what `check` has kept, and from the files beside the script."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from workshop.course import given_cases, kept_checks, kept_lines
from workshop.course.kept_checks import KeptCheck
from workshop.course.kept_lines import KeptLines
from workshop.course.state import State
from workshop.judge.verdict import Outcome
from workshop.pages.template import maker_of
from workshop.parts import Part, all_parts
from workshop.parts.case import case_names

MADE_BY = "workshop report"


@dataclass(frozen=True)
class PartReport:
    """A part, or one script of a part with many, with the checks that were kept of it."""

    part: Part
    case: str
    """The script of a part with many; "" for any other part, and for one of which no script was given yet."""
    is_done: bool
    """Whether it was ever done."""
    minutes: float | None
    """Of a script of a part with many: how long it took until it was solved."""
    checks: tuple[KeptCheck, ...]
    """The oldest first."""

    @property
    def shown(self) -> KeptCheck | None:
        """The check whose figures are shown: of those that ended with "done" the one with the best speedup.

        Where none has a speedup, the last of them; until one ended with "done", the last of all.
        """
        done = [each for each in self.checks if each.outcome is Outcome.DONE]
        return max(reversed(done), key=lambda each: each.ratio or 0.0, default=None) or self.last

    @property
    def last(self) -> KeptCheck | None:
        """The last check; None if none was kept."""
        return self.checks[-1] if self.checks else None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "part": self.part.name,
            "title": self.part.title,
            "case": self.case,
            "done": self.is_done,
            "minutes": self.minutes,
            "checks": len(self.checks),
            "shown": self.shown and with_gain(self.shown),
            "last": self.last and with_gain(self.last),
        }


@dataclass(frozen=True)
class MadePage:
    """A page that a command has made."""

    path: Path
    made_by: str
    """The command: "workshop flamegraph"."""
    title: str
    at: str
    """When it was written, in ISO format."""
    bytes: int


@dataclass(frozen=True)
class CourseReport:
    """How far a participant has come, and what was measured on the way."""

    parts: tuple[PartReport, ...]
    checks: tuple[KeptCheck, ...]
    """All that were kept, also of parts that are no longer there; the oldest first."""
    lines: tuple[tuple[KeptLines, KeptLines | None], ...]
    """For each script of which there is a line profile: the first one, and the last one of a script that was edited."""
    pages: tuple[MadePage, ...]

    @property
    def count(self) -> tuple[int, int]:
        """How many parts are done, and how many there are."""
        done = {each.part.name for each in self.parts if each.is_done}
        return len(done), len({each.part.name for each in self.parts})

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        done, count = self.count
        return {
            "done": done,
            "count": count,
            "parts": [each.as_dict() for each in self.parts],
            "checks": [with_gain(each) for each in self.checks],
            "line_profiles": [
                {
                    "before": asdict(before),
                    "after": after and asdict(after),
                    "more_hits": kept_lines.more_hits(before, after) if after else 1.0,
                }
                for before, after in self.lines
            ],
            "pages": [asdict(each) | {"path": str(each.path)} for each in self.pages],
        }


def with_gain(check: KeptCheck) -> dict[str, Any]:
    """Return a check as plain values, with its speedup and how sure it is; a `gain` of None: it was not measured."""
    gain: dict[str, Any] | None = None
    if timing := check.timing:
        gain = {"before": timing.before, "after": timing.after, "ratio": timing.ratio, "low": None, "high": None}
        gain |= {"text": f"{timing.ratio:.2f}x", "interval": f"median of {timing.runs} runs each"}
    elif (speed := check.speed) and check.ratio is not None:
        gain = {"before": speed.original, "after": speed.candidate, "ratio": speed.ratio}
        gain |= {"low": speed.low, "high": speed.high}
        gain |= {"text": f"{speed.text(speed.ratio)}x", "interval": speed.may_be}
    plain = check.as_dict() | {"gain": gain, "busy": str(check.load) if check.load else ""}
    plain |= {"state": check.state or check.headline, "unlooked": str(check.not_looked_at or "")}
    if check.part in _parts_without_race():
        plain["unraced"] = ""
    if speed := check.speed:
        plain["speed"] |= {"stretch": speed.stretch, "text": f"{speed.text(speed.ratio)}x", "may_be": speed.may_be}
    return plain


@cache
def _parts_without_race() -> set[str]:
    return {part.name for part in all_parts() if not part.has_race}


def gather(state: State, script: Path) -> CourseReport:
    """Return what is known of a course; the line profiles and pages are those beside the script, and in this folder."""
    checks = kept_checks.read(state)
    parts = [each for part in all_parts() for each in _reports(part, state, checks)]
    pages = made_pages([script.absolute().parent, Path.cwd()], without=[MADE_BY])
    return CourseReport(tuple(parts), tuple(checks), tuple(_lines(script, checks)), tuple(pages))


def _reports(part: Part, state: State, checks: Sequence[KeptCheck]) -> Iterator[PartReport]:
    """Yield the report of a part; of a part with many scripts, one for each that was given."""
    mine = [each for each in checks if each.part == part.name]
    solved, given = given_cases.solved(part, state), state.get("parts", part.name, "case")
    cases = dict.fromkeys(filter(None, [*(each.case for each in mine), *solved, given])) if case_names(part) else {}
    for case in cases:
        of_case = tuple(each for each in mine if each.case == case)
        is_done = case in solved or any(each.outcome is Outcome.DONE for each in of_case)
        yield PartReport(part, case, is_done, solved.get(case), of_case)
    if not cases:
        is_done = bool(state.get("parts", part.name, "done")) or any(each.outcome is Outcome.DONE for each in mine)
        yield PartReport(part, "", is_done, None, tuple(mine))


def _lines(script: Path, checks: Sequence[KeptCheck]) -> Iterator[tuple[KeptLines, KeptLines | None]]:
    """Yield the first line profile of each script, and the last one of it as it was after an edit."""
    names = dict.fromkeys([script.name, *(each.script for each in checks)])
    kept = [each.lines for each in checks if each.lines]
    here = [each for name in names for each in kept_lines.of_script(script.with_name(name))]
    for name in names:
        runs = sorted((each for each in {*kept, *here} if each.script == name), key=lambda each: each.at)
        if runs:
            edited = (each for each in reversed(runs) if each.fingerprint != runs[0].fingerprint)
            yield runs[0], next(edited, None)


def made_pages(folders: Iterable[Path], without: Iterable[str] = ()) -> list[MadePage]:
    """Return the pages in some folders, the oldest first; without those of some commands."""
    unique = dict.fromkeys(folder.resolve() for folder in folders)
    paths = [path for folder in unique for kind in ("*.html", "*.svg") for path in folder.glob(kind)]
    found = [each for each in map(_page, paths) if each and each.made_by not in without]
    return sorted(found, key=lambda each: (each.at, each.path))


def _page(path: Path) -> MadePage | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            made = maker_of(file.read(4000))  # which name the command and the title
        known = path.stat()
    except OSError:
        return None
    if made is None:
        return None
    at = datetime.fromtimestamp(known.st_mtime).astimezone().isoformat(timespec="seconds")
    return MadePage(path, *made, at, known.st_size)
