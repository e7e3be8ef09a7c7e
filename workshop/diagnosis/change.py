"""What has changed between two measurements of a script, phase by phase and line by line, and whether it is noise."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from workshop import noise
from workshop.errors import WorkshopError
from workshop.file_kind import wrong_kind
from workshop.notebooks.cell_places import place
from workshop.probe.phases import Phase

MIN_SHARE = 0.02
"""Share of a step, at least, by which the time of a line differs that is told."""

Values = Mapping[str, Any]


class Measure(Enum):
    """What is measured; its value ends the names of the fields in JSON."""

    MS = "_ms"
    """Milliseconds per step."""
    BYTES = ""


@dataclass(frozen=True)
class Change:
    """What something takes in two measurements."""

    name: str
    before: float
    after: float
    margin: float | None
    """A difference of no more than this may be noise; None if that is not known."""
    error: float | None = None
    """The standard error of the difference; None if it is not known."""
    measure: Measure = Measure.MS

    @property
    def difference(self) -> float:
        """By how much it has become more; negative if it has become less."""
        return self.after - self.before

    @property
    def more_than_noise(self) -> bool:
        """Whether the difference is certain to be none of noise."""
        return self.margin is not None and abs(self.difference) > self.margin

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        figures = {name: getattr(self, name) for name in ("before", "after", "error", "margin")}
        of_measure = {f"{name}{self.measure.value}": figure for name, figure in figures.items()}
        return {"name": self.name, **of_measure, "more_than_noise": self.more_than_noise}


def read_saved(path: Path, command: str, holds: Callable[[Any], object]) -> Values:
    """Read what a command has written with --save.

    Args:
        path: the file.
        command: the command that is to have written it.
        holds: looks up what such a file holds, and fails if that is not in it.

    Raises:
        WorkshopError: the file is no measurement of this command.
    """
    try:
        found: Values = json.loads(path.read_text(encoding="utf-8"))
        holds(found)
    except (OSError, ValueError, LookupError, TypeError) as error:
        wanted = f"no measurement that workshop {command} --save has written"
        raise WorkshopError(wrong_kind(path, wanted, "name one")) from error
    return found


def read_saved_times(path: Path) -> Values:
    """Read what `workshop measure --save` has written.

    Raises:
        WorkshopError: the file is not a saved measurement.
    """
    return read_saved(path, "measure", lambda found: (found["steps"]["blocks_ms"][0], found["lines"]))


def changes(before: Values, after: Values) -> list[Change]:
    """Return the changes of the step, then of its phases, then of the lines that changed."""
    step = _change("a step", 1, *(_step(each["steps"]) for each in (before, after)))
    tables = [each.get("synchronized") or each["steps"] for each in (before, after)]
    phases = {
        str(phase): _change(phase, len(Phase), *(_in_phase(table, phase) for table in tables))
        for phase in Phase
        if any(table["phases_s"][phase] for table in tables)
    }
    return [step, *phases.values(), *_of_lines(before, after, MIN_SHARE * step.before, phases)]


def _step(steps: Values) -> tuple[float, list[float]]:
    """Return the milliseconds of a step as `measure` prints them, and those of each block of steps."""
    return steps["wall_s"] / steps["count"] * 1e3, [sum(block.values()) for block in steps["blocks_ms"]]


def _in_phase(steps: Values, phase: Phase) -> tuple[float, list[float]]:
    return steps["phases_s"][phase] / steps["count"] * 1e3, [block[phase] for block in steps["blocks_ms"]]


def _change(name: str, compared: int, before: tuple[float, list[float]], after: tuple[float, list[float]]) -> Change:
    """Return a change, whose noise is that of the blocks; `compared` is the number of changes that are tested.

    The means of the blocks are not shown: a block may have more steps than others.
    """
    (before_ms, before_blocks), (after_ms, after_blocks) = before, after
    found = noise.change(before_blocks, after_blocks)
    if math.isnan(found.error):
        return Change(name, before_ms, after_ms, None)
    return Change(name, before_ms, after_ms, float(found.margin(noise.ERROR_RATE / compared)), float(found.error))


def _of_lines(before: Values, after: Values, least_ms: float, phases: Mapping[str, Change]) -> list[Change]:
    """The lines that changed, matched by their text: line numbers shift, and the changed script may be another file.

    A line's time has the noise of its phase, and that of a number of samples. There are none where a run was too short
    for any line to be seen.
    """
    if not (before["lines"] and after["lines"]):
        return []
    files = {_key(line): place(line["file"], None) for line in (*before["lines"], *after["lines"])}
    both = [_by_text(each["lines"]) for each in (before, after)]
    found = []
    keys = dict.fromkeys([*both[0], *both[1]])
    for key in keys:
        (before_ms, error_before), (after_ms, error_after) = (each.get(key, (0.0, 0.0)) for each in both)
        if abs(after_ms - before_ms) > least_ms:
            phase, function, text = key
            name = f"{phase}, {files[key]}, {function}: {text}"
            error_ms = math.hypot(error_before, error_after)
            of_phase = phases[phase].margin if phase in phases else 0.0
            margin_ms = None
            if of_phase is not None:
                margin_ms = max(of_phase, error_ms * noise.student_t(noise.MANY, noise.ERROR_RATE / len(keys)))
            found.append(Change(name, before_ms, after_ms, margin_ms, error_ms))
    return sorted(found, key=lambda change: abs(change.difference), reverse=True)


def _key(line: Values) -> tuple[str, str, str]:
    return line["phase"], line["function"], line["text"]


def _by_text(lines: list[Values]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """The milliseconds of each line with their error, as the number of samples that hit it is random."""
    found: dict[tuple[str, str, str], tuple[float, float]] = {}
    for line in lines:
        key = _key(line)
        ms, error = found.get(key, (0.0, 0.0))
        of_chance = line["ms_a_step"] / math.sqrt(max(line["samples"], 1))
        found[key] = ms + line["ms_a_step"], math.hypot(error, of_chance)
    return found
