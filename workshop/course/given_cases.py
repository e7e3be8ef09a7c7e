"""Which script of a part with many a participant was given, and how far they have come with them.

The state keeps, below the part's name: the `seed`, by which the order of the scripts is drawn; the `case` that was
given last, and since when (`began`); and, for each one that was `solved`, the minutes that it took.
"""

import random
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.parts import Part
from workshop.parts.case import Case, case_names, find_case


def given(part: Part, state: State) -> Part:
    """Return a part as the participant has it: with the script that they were given, if it is a part with many."""
    name = state.get("parts", part.name, "case")
    return find_case(part, name) if name in case_names(part) else part


def give(part: Part, state: State, seed: int | None = None) -> Case | None:
    """Give the participant a script of a part with many: the one that they have, or the next once they have solved it.

    The order of the scripts is that of the seed; without one, as before, or by chance. Returns None if all are solved.
    """
    known: dict[str, Any] = state.get("parts", part.name) or {}
    seed = seed or known.get("seed") or random.randint(1, 10_000)
    solved = known.get("solved") or {}
    current = known.get("case")
    if current in case_names(part) and current not in solved and seed == known.get("seed"):
        return find_case(part, current)
    left = [name for name in in_order_of(seed, case_names(part)) if name not in solved]
    if not left:
        return None
    kept = {key: known[key] for key in ("done", "read", "solved") if key in known}
    began = datetime.now().isoformat(timespec="seconds")
    state.put(kept | {"seed": seed, "case": left[0], "began": began}, "parts", part.name)
    return find_case(part, left[0])


def in_order_of(seed: int, of: Sequence[str]) -> list[str]:
    """Return names in the order that belongs to a seed: seed 1 begins with the first, seed 2 with the second."""
    first = of[(seed - 1) % len(of)]
    others = [name for name in of if name != first]
    random.Random(seed).shuffle(others)
    return [first, *others]


def solve(known: dict[str, Any], case: Case) -> None:
    """Note in what is known of a part that a script of it was solved, and in how many minutes."""
    began = datetime.fromisoformat(known.get("began") or datetime.now().isoformat())
    minutes = (datetime.now() - began).total_seconds() / 60
    known["solved"] = {case.case: round(minutes, 1)} | (known.get("solved") or {})


def solved(part: Part, state: State) -> dict[str, float]:
    """Return the minutes that each of a part's scripts took until it was solved."""
    return state.get("parts", part.name, "solved") or {}


def how_many(minutes: dict[str, float]) -> str:
    """Return how many scripts were solved, and in which time, in a few words."""
    scripts = "1 script" if len(minutes) == 1 else f"{len(minutes)} scripts"
    mean = f"{sum(minutes.values()) / len(minutes):.0f}"
    return f"{scripts} solved, in {mean} minute{'s' * (mean != '1')}{' each' * (len(minutes) > 1)}"


def require_script(part: Part) -> None:
    """Raise a WorkshopError if a part has many scripts, and the participant has not been given one yet."""
    if case_names(part) and not isinstance(part, Case):
        raise WorkshopError(f"{part.name} gives everybody another script; get yours with workshop start {part.name}")
