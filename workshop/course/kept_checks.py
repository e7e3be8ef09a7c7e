"""The verdicts that `check` keeps, beside the participant's script: a line of JSON each, in the order of their dates.

The file only grows, and `workshop reset` leaves it alone; the state, in contrast, knows only how things are now. `keep`
adds a check, and `read` returns them all. A check must not fail for want of room or access: that is only said.
"""

import fcntl
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import msgspec
import psutil

from workshop.course import kept_lines
from workshop.course.kept_lines import KeptLines
from workshop.course.progress import fingerprint
from workshop.course.state import State
from workshop.judge.verdict import MemoryPeaks, NotLookedAt, Outcome, Speed, Timing, Verdict
from workshop.probe.own_limits import usable_cores
from workshop.runs.machine import gpus, processor
from workshop.runs.other_load import OtherLoad

FILE = "checks.jsonl"


@dataclass(frozen=True)
class Machine:
    """What a check ran on."""

    processor: str
    usable_cores: int
    memory_bytes: int
    system: str
    """The operating system, with its version."""
    gpus: tuple[str, ...] = ()
    """The names of the NVIDIA GPUs."""

    @classmethod
    def here(cls) -> Self:
        """Return this machine."""
        memory_bytes = psutil.virtual_memory().total
        system = f"{platform.system()} {platform.release()}"
        names = tuple(str(each.name()) for each in gpus())
        return cls(processor(), usable_cores(), memory_bytes, system, names)


@dataclass(frozen=True)
class KeptCheck:
    """A check that has ended."""

    part: str
    case: str
    """The script of a part with many; "" for any other part."""
    script: str
    """The name of the file that was judged."""
    fingerprint: str
    """A short hash of its content."""
    at: str
    """When the check ended: the local time with its distance from UTC, in ISO format."""
    seconds: float
    """How long it took."""
    outcome: Outcome
    headline: str
    """How it ended, in a few words: "done"."""
    reasons: tuple[str, ...]
    unraced: str
    """Why there was no race; "" where there was one, or never is."""
    speed: Speed | None
    timing: Timing | None
    machine: Machine
    versions: dict[str, str]
    """The versions of Python and of some packages, by their names."""
    device: str = ""
    """What `--device` said; "" where the script chose."""
    shares: dict[str, float] = field(default_factory=dict)
    """How busy each resource was, or the share of each phase, from 0 to 1."""
    load: OtherLoad | None = None
    """What other programs used of the cores meanwhile."""
    lines: KeptLines | None = None
    """The hottest lines of the script, by the newest line profile of it as it was judged."""
    state: str = ""
    """How it ended, in at most four words: "half done"; "" in a check that was kept before there were such words."""
    memory: MemoryPeaks | None = None
    """The memory, in a part that asks for less of it."""
    not_looked_at: NotLookedAt | None = None
    """What was not looked at on that machine."""
    told: str = ""
    """The first of the reasons in the workshop's own words alone, as the room is told it."""

    def __post_init__(self) -> None:
        """Raise a ValueError for a date without a time zone."""
        if self.date.tzinfo is None:
            raise ValueError("its date has no time zone")

    @property
    def ratio(self) -> float | None:
        """The speedup: what the part timed itself, or else that of the race; None if neither was measured.

        A script of a part with many is raced against the one without the fault, and one that needs less memory must
        only not be slower: neither tells a speedup.
        """
        measured = self.timing or (None if self.case or self.memory else self.speed)
        return measured.ratio if measured else None

    @property
    def date(self) -> datetime:
        """When the check ended."""
        return datetime.fromisoformat(self.at)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = {"outcome": self.outcome.value, "load": self.load and self.load.as_dict()}
        return {"schema_version": 1} | asdict(self) | plain


def of_verdict(
    verdict: Verdict, script: Path, content: bytes, seconds: float, case: str = "", device: str | None = None
) -> KeptCheck:
    """Return what is kept of a check that has just ended, on this machine; `content` is the script as it was judged."""
    packages = ("profiling-workshop", "torch", "torchvision")
    return KeptCheck(
        part=verdict.subject,
        case=case,
        script=script.name,
        fingerprint=fingerprint(content),
        at=datetime.now().astimezone().isoformat(timespec="seconds"),
        seconds=round(seconds, 1),
        outcome=verdict.outcome,
        headline=verdict.headline,
        reasons=tuple(map(str, verdict.reasons)),
        unraced=verdict.unraced,
        speed=verdict.speed,
        timing=verdict.timing,
        machine=Machine.here(),
        versions={"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages},
        device=device or "",
        shares=verdict.shares,
        load=verdict.machine,
        lines=kept_lines.newest(script, content),
        state=verdict.state,
        memory=verdict.memory,
        not_looked_at=verdict.not_looked_at,
        told=verdict.reasons[0].told if verdict.reasons else "",
    )


def path_beside(state: State) -> Path:
    """Return the file of the checks that belongs to a state."""
    return state.path.with_name(FILE)


def keep(state: State, check: KeptCheck) -> None:
    """Add a check to the file; if that cannot be, say so in a line."""
    path = path_beside(state)
    try:
        path.parent.mkdir(exist_ok=True)
        _append(path, json.dumps(check.as_dict()).encode() + b"\n")
    except OSError as error:
        print(f"cannot keep this verdict in {path}: {error.strerror}", file=sys.stderr)


def _append(path: Path, line: bytes) -> None:
    """Add a whole line or nothing: what was written of it before the disk was full is taken back."""
    with path.open("a+b", buffering=0) as file, _locked(file.fileno(), fcntl.LOCK_EX):
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            line = line if file.read(1) == b"\n" else b"\n" + line  # after a line that a crash has torn
        try:
            left = memoryview(line)
            while left:
                left = left[file.write(left) :]
        except BaseException:
            file.truncate(end)
            raise


def read(state: State) -> list[KeptCheck]:
    """Return all checks that were kept, the oldest first; lines that are damaged are left out, and that is said."""
    path = path_beside(state)
    try:
        with path.open("rb") as file, _locked(file.fileno(), fcntl.LOCK_SH):
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        print(f"{path} cannot be read ({error.strerror}); going on without", file=sys.stderr)
        return []
    checks, damaged = [], []
    for number, line in enumerate(lines, start=1):
        try:
            checks.append(msgspec.convert(json.loads(line), KeptCheck))  # fields of later versions are left out
        except (ValueError, msgspec.ValidationError):
            damaged += [number] * bool(line.strip())
    if damaged:
        which = f"line {damaged[0]} is" if len(damaged) == 1 else f"lines {', '.join(map(str, damaged))} are"
        print(f"{path}: {which} damaged, and left out", file=sys.stderr)
    return sorted(checks, key=lambda check: check.date)


@contextmanager
def _locked(file: int, how: int) -> Iterator[None]:
    """Keep other processes of the workshop from writing meanwhile; some network folders know no locks."""
    with suppress(OSError):
        fcntl.flock(file, how)
    yield  # closing the file lets go of the lock
