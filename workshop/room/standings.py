"""Where everybody is, kept in memory as reports come, and what the board shows of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from workshop.room.posts import RoomReport
from workshop.room.store import Participant, Presence, ReceivedReport

STUCK_AFTER_S = 600.0
"""Seconds without progress in a part that was begun, from which on somebody is shown as stuck."""

REFUSED = ("not the same work", "broken")
"""The outcomes that the board counts as refusals."""

MAX_REFUSALS = 50
"""Reasons, at most, that the board gets; it shows the first few."""

_RANKS = {"broken": 1, "not the same work": 2, "undecided": 3, "not there yet": 3, "half done": 4, "done": 5}


@dataclass
class PartStanding:
    """How far somebody is with a part."""

    outcome: str = ""
    """How the latest check ended; "" before the first."""
    latest_at: float = 0.0
    checks: int = 0
    hints: int = 0
    done: bool = False
    rank: int = 0
    ratio: float | None = None
    """The best speedup of work that was accepted."""
    share: float | None = None
    """The best speedup as a share of what the solution reaches on the same machine."""

    def add(self, report: RoomReport, happened_at: float) -> bool:
        """Add a report, and return whether it is progress."""
        self.hints = max(self.hints, report.hints)
        if report.outcome is None:
            return False
        self.checks += 1
        if happened_at >= self.latest_at:  # what was offline may come late
            self.outcome, self.latest_at = report.outcome, happened_at
        rank, better = _RANKS[report.outcome], False
        if report.ratio and rank >= _RANKS["not there yet"]:
            better = report.ratio > (self.ratio or 1.0) * 1.05  # so much more is progress, too
            self.ratio = max(report.ratio, self.ratio or 0.0)
        if report.ratio and report.solution_ratio and report.outcome == "done":
            self.share = max(report.ratio / report.solution_ratio, self.share or 0.0)
        progress = rank > self.rank or (better and not self.done)
        self.rank, self.done = max(rank, self.rank), self.done or report.outcome == "done"
        return progress


@dataclass
class Person:
    """Somebody on the board."""

    id: str
    number: int
    name: str
    state: Presence
    progress_at: float
    machine: str = ""
    part: str = ""
    """The part of what was reported last."""
    seen_at: float = 0.0
    parts: dict[str, PartStanding] = field(default_factory=dict)
    refusals: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """How often a part's check refused the script, by its outcome and the reason."""


class Standings:
    """Everybody's standing.

    Args:
        parts: the names of the parts, in order, with their titles.
    """

    def __init__(self, parts: dict[str, str]) -> None:
        self.parts = parts
        self.people: dict[str, Person] = {}
        self.version = 0
        """It grows with each change."""

    def join(self, participant: Participant) -> None:
        """Add somebody."""
        number = len(self.people) + 1
        person = Person(participant.id, number, participant.name, participant.state, participant.joined_at)
        self.people[participant.id] = person
        self.version += 1

    def set_presence(self, participant: str, state: Presence) -> None:
        """Note that somebody has left, was removed, or is here again."""
        self.people[participant].state = state
        self.version += 1

    def count_here(self) -> int:
        """Return how many take part."""
        return sum(person.state is Presence.HERE for person in self.people.values())

    def is_taken(self, name: str) -> bool:
        """Return whether somebody who takes part is called so; whoever has left or was removed needs no name."""
        here = (person for person in self.people.values() if person.state is Presence.HERE)
        return any(person.name.casefold() == name.casefold() for person in here)

    def add(self, received: ReceivedReport) -> None:
        """Add a report that has been kept; to begin a part is progress, too."""
        person, report = self.people[received.participant], received.report
        begins = report.part not in person.parts
        standing = person.parts.setdefault(report.part, PartStanding())
        if standing.add(report, received.happened_at) or begins:
            person.progress_at = max(person.progress_at, received.happened_at)
        if received.happened_at >= person.seen_at:
            person.seen_at, person.part = received.happened_at, report.part
            person.machine = report.machine or person.machine
        if report.outcome in REFUSED:
            person.refusals[report.part, report.outcome, report.reason] += 1
        self.version += 1

    def at(self, person: Person) -> str:
        """Return the part that somebody is at: that of the last report, or the first open one after it."""
        names = list(self.parts)
        if not person.part:
            return names[0]
        rest = names[names.index(person.part) :]
        return next((name for name in rest if not person.parts.get(name, PartStanding()).done), "")

    def board(self, now: float, hide_names: bool) -> dict[str, Any]:
        """Return what the board shows at a time: the parts, the people, where they are stuck, and the best shares."""
        here = [person for person in self.people.values() if person.state is not Presence.REMOVED]
        people = [self._row(person, now, hide_names) for person in here]
        names = {person.id: row["name"] for person, row in zip(here, people, strict=True)}
        counts: Counter[tuple[str, str, str]] = Counter()
        for person in here:
            counts.update(person.refusals)
        order = sorted(counts, key=lambda key: (-counts[key], key))[:MAX_REFUSALS]
        return {
            "parts": [self._part(name, people, here, names) for name in self.parts],
            "people": people,
            "refusals": [{"part": p, "outcome": o, "reason": r, "count": counts[p, o, r]} for p, o, r in order],
        }

    def _row(self, person: Person, now: float, hide_names: bool) -> dict[str, Any]:
        at = self.at(person)
        is_late = now - person.progress_at >= STUCK_AFTER_S
        return {
            "number": person.number,
            "name": f"Participant {person.number}" if hide_names else person.name,
            "left": person.state is Presence.LEFT,
            "at": at,
            "progress_at": person.progress_at,
            "stuck": at in person.parts and person.state is Presence.HERE and is_late,
            "hints": person.parts[at].hints if at in person.parts else 0,
            "parts": {
                name: {"outcome": each.outcome, "done": each.done, "share": each.share, "checks": each.checks}
                for name, each in person.parts.items()
            },
        }

    def _part(
        self, name: str, rows: Sequence[dict[str, Any]], here: Sequence[Person], names: dict[str, str]
    ) -> dict[str, Any]:
        """Return how many have done a part, are at it, and are stuck in it, and the three best shares."""
        at = [row for row in rows if row["at"] == name and not row["left"]]
        shares = {person.id: person.parts[name].share for person in here if name in person.parts}
        known = {who: share for who, share in shares.items() if share is not None}
        best = sorted(known, key=lambda who: -known[who])[:3]
        return {
            "name": name,
            "title": self.parts[name],
            "done": sum(name in person.parts and person.parts[name].done for person in here),
            "at": len(at),
            "stuck": sum(row["stuck"] for row in at),
            "hints": sum(person.parts[name].hints for person in here if name in person.parts),
            "best": [{"name": names[who], "share": known[who]} for who in best],
        }
