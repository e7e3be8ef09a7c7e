"""How far a participant has come: what is remembered of each part, and what comes next."""

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from workshop.course import given_cases
from workshop.course.scripts import where_it_is
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.judge.verdict import Outcome, Verdict
from workshop.parts import Part, all_parts, find_part
from workshop.parts.case import Case, case_names

EDITED = "done (script edited since)"


@dataclass(frozen=True)
class Progress:
    """One part, as `workshop list` shows it."""

    part: str
    title: str
    state: str
    """ "done"; `EDITED`, if it is the script that was judged; else how the last check ended, or "open"."""
    best_ratio: float | None
    """The best speedup of the script over the original."""
    hints_seen: int
    solved: dict[str, float]
    """For a part with many scripts: the minutes until each was solved, by its name."""


def remember(state: State, part: Part, verdict: Verdict, source: bytes) -> None:
    """Keep how a check ended, whether the part was ever done and with which script, and the best speed."""
    known: dict[str, Any] = state.get("parts", part.name) or {}
    known |= {"last": verdict.outcome.value, "state": verdict.state, "at": datetime.now().isoformat(timespec="seconds")}
    if not part.change or source != part.beginning.read_bytes():
        known["tried"] = True
    if verdict.speed:
        known["speed"] = asdict(verdict.speed)
    if verdict.outcome is Outcome.DONE:
        known |= {"done": True, "script": fingerprint(source)}
        if isinstance(part, Case):
            given_cases.solve(known, part)
        elif verdict.speed and not verdict.memory:
            known["best_ratio"] = round(max(verdict.speed.ratio, known.get("best_ratio", 0.0)), 3)
    state.put(known, "parts", part.name)


def progress(state: State, script: Path) -> list[Progress]:
    """Return the progress in every part, in order; a script of a part's own is looked for beside the script."""
    found = []
    for part in (given_cases.given(part, state) for part in all_parts()):
        own = script.with_name(part.script) if part.own_script else script
        current = fingerprint(own.read_bytes()) if own.is_file() else None
        known = state.get("parts", part.name) or {}
        text = ended(known) or "open"
        if known.get("done"):
            text = "done" if known.get("script") == current or not part.change or known.get("solved") else EDITED
        hints, solved = known.get("hints", 0), given_cases.solved(part, state)
        is_open = isinstance(part, Case) and part.case not in solved
        title = f"{part.title}: {part.script} is open" if is_open else part.title
        found.append(Progress(part.name, title, text, known.get("best_ratio"), hints, solved))
    return found


def ended(known: Mapping[str, Any]) -> str:
    """Return how the last check of a part ended, as that check said; "" if there was none."""
    return str(known.get("state", ""))


def next_part(state: State, after: Part | None = None) -> Part | None:
    """Return the first part after a given one that was never done, then of all; None when all are done.

    Where none is given, it begins with the one that was checked last: a participant may have begun with any part.
    """
    parts = all_parts()
    checked = [state.get("parts", part.name, "at") or "" for part in parts]
    begin = parts.index(after) + 1 if after in parts else checked.index(max(checked))
    return next((part for part in [*parts[begin:], *parts] if not state.get("parts", part.name, "done")), None)


def next_step(state: State, script: Path) -> tuple[str, str]:
    """Return what to do now, in a sentence, and the command for it."""
    part = next_part(state)
    if not script.is_file() and not (part and part.own_script):
        there = where_it_is()
        go = "Go there, or put one here." if there else "Put one here."
        return f"There is no train.py here{there}. {go}", "workshop start part1"
    if part is None:
        return "Every part is done. Now a script of your own: where does its time go?", "workshop measure YOUR_SCRIPT"
    if not state.get("doctor") and not state.get("parts"):
        return "Welcome. First see whether this machine is ready.", "workshop doctor"
    known, named = state.get("parts", part.name) or {}, f"{part.name}, {part.title}"
    if known.get("last") == Outcome.UNDECIDED.value:
        following = next_part(state, after=part)
        onwards = "" if following in (None, part) else f", or go on with {following.name} meanwhile"
        if part.change and script.name == part.script and script.read_bytes() == part.untouched.read_bytes():
            return f"{named}: undecided. Put your script back, and have it checked again{onwards}.", "workshop restore"
        return f"{named}: undecided. Have it checked again{onwards}.", f"workshop check {part.name}"
    if "last" in known:
        if known.get("hints"):
            again = "Change something" if part.change else "Look again"
            return f"{named}: {ended(known)}. {again}, and have it checked.", f"workshop check {part.name}"
        return f"{named}: {ended(known)}. If you are stuck, there are hints.", f"workshop hint {part.name}"
    if known.get("read") and case_names(part) and not isinstance(given_cases.given(part, state), Case):
        return f"{named}: get the script that it is about.", f"workshop start {part.name}"
    if known.get("read"):
        return f"{named}: once you have done what it asks, have it checked.", f"workshop check {part.name}"
    return f"Next is {named}. Read what it is about.", f"workshop show {part.name}"


def named_or_next(name: str | None, state: State) -> Part:
    """Return the part of that name, as the participant has it; without a name the next one, or the last of all."""
    return given_cases.given(find_part(name) if name else next_part(state) or all_parts()[-1], state)


def next_hint(state: State, part: Part) -> tuple[int, str]:
    """Return the number, from 1, and the text of the first hint that was not seen yet; of the last one after that."""
    number = min(int(state.get("parts", part.name, "hints") or 0) + 1, len(part.hints))
    state.put(number, "parts", part.name, "hints")
    return number, part.hints[number - 1]


def solution(state: State, part: Part, yes: bool) -> Path:
    """Return a part's solution; `yes` shows it also to those who have not tried the part themselves.

    Raises:
        WorkshopError: the part was not tried, or it asks a question and has no script to show.
    """
    given_cases.require_script(part)
    if not part.change:
        raise WorkshopError(f"{part.name} asks a question, there is no script to show; try workshop hint {part.name}")
    if not (yes or state.get("parts", part.name, "tried")):
        raise WorkshopError(
            f"try it first: edit your script and run workshop check {part.name}; or see the solution with --yes"
        )
    return part.solution


def difference(left: Path, right: Path, *of: Part) -> list[str]:
    """Return what changes from one script to another, as `diff -u` prints it; they may be those of a case."""
    before, after = (path.read_text(encoding="utf-8").splitlines() for path in (left, right))
    names = {left: left.name}
    for part in [*all_parts(), *of]:
        names |= {part.solution: part.solution_name, part.untouched: f"{part.script} as it came"}
    old, new = names[left], names[right]
    return list(difflib.unified_diff(before, after, old, new, lineterm=""))


def fingerprint(source: bytes) -> str:
    """Return a short hash of a script, which shows whether it has changed."""
    return hashlib.sha256(source).hexdigest()[:16]
