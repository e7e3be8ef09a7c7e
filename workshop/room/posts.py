"""What participants send to the room, declared for both ends; what does not fit is refused as a whole."""

import re
import unicodedata
from typing import Annotated, Literal

from msgspec import Meta, Struct

MAX_BODY_BYTES = 4096
"""Bytes, at most, of a request that sends something."""

REQUEST_WITHIN_S = 10.0
"""Seconds, at most, until the first request of a connection comes, and in which one must have arrived."""

MAX_NAME = 40
"""Characters, at most, of a name."""

CODE_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
"""What a join code is made of: nothing that is read as something else from the back row."""

Hex = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
PartName = Annotated[str, Meta(pattern=r"\Apart[0-9]{1,3}\Z")]
Line = Annotated[str, Meta(max_length=300, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
Ratio = Annotated[float, Meta(gt=0, le=1e6)]
Seconds = Annotated[float, Meta(ge=0, le=1e11)]
OutcomeName = Literal["done", "half done", "not there yet", "not the same work", "undecided", "broken"]


class RoomReport(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A verdict or a hint, as the room gets it: no code, no paths, no name of a machine."""

    id: Hex
    """Drawn at random when it happened: a report that is sent twice is kept once."""
    kind: Literal["check", "hint"]
    part: PartName
    at: Seconds
    """When it happened, in seconds since 1970, by the participant's clock."""
    hints: Annotated[int, Meta(ge=0, le=20)] = 0
    """How many hints of the part have been seen."""
    outcome: OutcomeName | None = None
    ratio: Ratio | None = None
    """The speedup, and between which values it lies."""
    low: Ratio | None = None
    high: Ratio | None = None
    solution_ratio: Ratio | None = None
    """The speedup that the solution reaches on the same machine."""
    reason: Line = ""
    """Why it was not done, in words of the workshop alone."""
    machine: Line = ""

    def problem(self) -> str | None:
        """Return what contradicts itself in a report whose fields are all valid; None for a sound one."""
        if (self.kind == "check") != (self.outcome is not None):
            return "a check has an outcome, a hint has none"
        speed = (self.low, self.ratio, self.high)
        if any(speed) and not all(speed):
            return "a speedup has an interval"
        if self.low and self.ratio and self.high and not self.low <= self.ratio <= self.high:
            return "the speedup is not in its interval"
        return None


class Post(Struct, frozen=True, forbid_unknown_fields=True):
    """A report on its way."""

    now: Seconds
    """The participant's clock when it was sent: the room then knows how long ago it was, also where it is wrong."""
    report: RoomReport


class JoinPost(Struct, frozen=True, forbid_unknown_fields=True):
    """A participant who wants to join."""

    code: Annotated[str, Meta(max_length=40)]
    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]


class JoinAnswer(Struct, frozen=True):
    """The room's answer: who the participant is from now on, and the secret that proves it."""

    participant: Hex
    token: str
    name: str


class Refusal(Struct, frozen=True, omit_defaults=True):
    """Why the room has refused something."""

    error: str
    kept: bool = False
    """Whether the very same report has arrived before, and is kept."""


def clean_name(name: str) -> str:
    """Return a name as it is kept and shown.

    Raises:
        ValueError: it is empty, too long, or has characters that show as nothing or change what stands beside them.
    """
    plain = re.sub(r"\s+", " ", unicodedata.normalize("NFC", name)).strip()
    marks = sum(unicodedata.category(letter).startswith("M") for letter in plain)
    if not plain or len(plain) > MAX_NAME or not plain.isprintable() or marks > len(plain) // 2:
        raise ValueError(f"a name has 1 to {MAX_NAME} visible characters")
    return plain
