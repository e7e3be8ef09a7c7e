"""The lines that take longer than they did: both versions train for some steps while their lines are counted."""

import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workshop import line_counts
from workshop.judge.contest import Contest
from workshop.judge.race import MIN_PAIRS
from workshop.probe import wire
from workshop.probe.settings import LINES_VARIABLE, CountedRun
from workshop.profiles import line_change, line_profile
from workshop.profiles.line_change import FunctionChange, LineChange, RowChange
from workshop.profiles.line_profile import LineProfile
from workshop.recording.line_recorder import write_profile
from workshop.runs.other_load import LoadMeter
from workshop.runs.script import Say
from workshop.runs.script_error import ScriptError

RUN_S = 4.0
"""Seconds, about, that a run trains, and two epochs at least: what comes once an epoch then comes twice."""

MIN_SHARE_OF_GROWTH = 0.2
"""Share of the growth of a step, at least, of a line that is named."""

MAX_LINES = 3
"""Lines, at most, that are named."""

MIN_TIMES_AS_OFTEN = 1.1
"""Times as often as in the base, at least, that a line runs whose time differs by more than noise."""


@dataclass(frozen=True)
class GrownLine:
    """A line that takes longer than in the base."""

    file: str
    """The path of its file in the working tree."""
    line: int
    function: str
    kind: str
    """What became of the statement: as in a `RowChange`."""
    text: str
    before_ms: float
    """The time in a step of the base, in all processes."""
    after_ms: float
    """The time in a step now."""
    hits_before: float
    """How often it ran in a step of the base."""
    hits_after: float

    @property
    def growth_ms(self) -> float:
        """What a step takes longer."""
        return self.after_ms - self.before_ms

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def count_both(contest: Contest, steps: int, epoch_s: float, left_s: float, say: Say) -> tuple[LineChange, int]:
    """Count the lines of both versions, in turn, and return what changed, and the number of steps of a run.

    Args:
        contest: the two versions.
        steps: the number of optimizer steps in an epoch.
        epoch_s: the seconds that it takes.
        left_s: the time for it; each version is run once in any case.
        say: told of the progress.

    Raises:
        ScriptError: a version broke.
    """
    begin, longest_s = time.monotonic(), 0.0
    steps *= max(2, math.ceil(RUN_S / max(epoch_s, 1e-3)))
    runs: dict[Path, list[LineProfile]] = {contest.original: [], contest.candidate: []}
    with tempfile.TemporaryDirectory(prefix="workshop-lines-", ignore_cleanup_errors=True) as folder:
        for number in range(MIN_PAIRS):
            began = time.monotonic()
            say(f"counting the lines of both versions, run {number + 1} of at most {MIN_PAIRS}")
            for side in list(runs)[:: 1 if number % 2 == 0 else -1]:
                file = Path(folder) / f"{number}-{side == contest.original}.lprof"
                profile, steps = _counted(contest, side, steps, file)
                runs[side].append(profile)
            longest_s = max(longest_s, time.monotonic() - began)
            if time.monotonic() - begin + longest_s > left_s:
                break
    return line_change.between(runs[contest.original], runs[contest.candidate], same_length=True), steps


def _counted(contest: Contest, path: Path, steps: int, file: Path) -> tuple[LineProfile, int]:
    """Let a version train for so many steps and count its lines; return them, and the steps, if it ended before."""
    with LoadMeter() as load, contest.script(path) as script:
        folder = script.folder / "lines"
        folder.mkdir()
        script.environment[LINES_VARIABLE] = wire.encode(CountedRun(str(folder), ()))
        script.epoch_steps = steps
        taken = script.epoch(pause=False).report.steps
        script.terminate()
        if not (found := list(line_counts.read(folder))):
            raise ScriptError("no line of its own code was counted", None, "", script.name)
        write_profile(file, found, script.command, (), load.end())
        return line_profile.read(file), taken


def lines_that_grew(change: LineChange, steps: int, growth_ms: float) -> list[GrownLine]:
    """Return the lines whose growth makes up that of a step, the one that grew most first.

    The time of a line includes the functions that it calls; what they grew by is theirs, unless only the line was
    edited. If the lines that were edited account for half of the growth, only they are named: a loop waits for its
    dataset as well, and a function that is called more often takes longer.

    Args:
        change: what changed from runs of the base to runs of the working tree, each of so many `steps`.
        steps: the number of steps of a run.
        growth_ms: what a step of the race takes longer.
    """
    found = []
    for function, row in _repeated(change):
        own_ms = change.own_growth_s(function, row) * 1e3 / steps
        line = _line(function, row, steps)
        is_sure = row.is_edited or not row.is_noise or line.hits_after > MIN_TIMES_AS_OFTEN * line.hits_before
        if own_ms >= MIN_SHARE_OF_GROWTH * growth_ms and is_sure:
            found.append((row.is_edited, own_ms, line))
    if sum(own_ms for is_edited, own_ms, _ in found if is_edited) >= growth_ms / 2:
        found = [each for each in found if each[0]]
    found.sort(key=lambda each: each[1], reverse=True)
    return [line for _, _, line in found[:MAX_LINES]]


def _repeated(change: LineChange) -> Iterator[tuple[FunctionChange, RowChange]]:
    """Yield the rows that are there now and ran again and again; imports and preparations run once."""
    for function in change.functions:
        for row in function.rows:
            if row.after and row.after.hits > 1 and not row.after.text.startswith(("import ", "from ")):
                yield function, row


def _line(function: FunctionChange, row: RowChange, steps: int) -> GrownLine:
    assert row.after
    return GrownLine(
        file=str(function.after[0].file),
        line=row.after.first,
        function=function.after[0].title,
        kind=row.kind,
        text=row.after.text,
        before_ms=row.before_s * 1e3 / steps,
        after_ms=row.after_s * 1e3 / steps,
        hits_before=(row.before.hits if row.before else 0) / steps,
        hits_after=row.after.hits / steps,
    )
