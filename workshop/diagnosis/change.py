"""What has changed between two measurements of a script, phase by phase and line by line, and whether it is noise."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from workshop.errors import WorkshopError
from workshop.probe.phases import Phase

STANDARD_ERRORS = 3.0
"""A difference of more than this many of its standard errors is more than noise: chance alone makes one in 3 of 1000
measurements."""

MIN_SHARE = 0.02
"""Lines whose time differs by a smaller share of a step are left out."""

Values = Mapping[str, Any]


@dataclass(frozen=True)
class TimeChange:
    """The time of something in two measurements."""

    name: str
    before_ms: float
    after_ms: float
    """Milliseconds a step."""
    error_ms: float
    """The standard error of their difference."""

    @property
    def is_more_than_noise(self) -> bool:
        """Whether a difference of this size is hardly ever seen by chance."""
        return abs(self.after_ms - self.before_ms) > STANDARD_ERRORS * self.error_ms

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"more_than_noise": self.is_more_than_noise}


def read_saved(path: Path) -> Values:
    """Read what `workshop measure --save` has written.

    Raises:
        WorkshopError: it is not such a file.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        found["steps"]["blocks_ms"][0], found["lines"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise WorkshopError(f"{path} is no measurement that workshop measure --save has written: {error}") from None
    return found


def changes(before: Values, after: Values) -> list[TimeChange]:
    """Return the step, then its phases, then the lines that have changed, each as it was and as it is."""
    return [_of_steps(before, after), *_of_phases(before, after), *_of_lines(before, after)]


def _of_steps(before: Values, after: Values) -> TimeChange:
    blocks = [[sum(block.values()) for block in each["steps"]["blocks_ms"]] for each in (before, after)]
    return change_of("a step", *blocks)


def _of_phases(before: Values, after: Values) -> Iterable[TimeChange]:
    for phase in Phase:
        blocks = [[block[phase] for block in each["steps"]["blocks_ms"]] for each in (before, after)]
        if any(map(any, blocks)):
            yield change_of(phase, *blocks)


def change_of(name: str, before: list[float], after: list[float]) -> TimeChange:
    """Return the change of the mean of some blocks, with its error."""
    error = math.hypot(*(stdev(each) / math.sqrt(len(each)) if len(each) > 1 else each[0] for each in (before, after)))
    return TimeChange(name, fmean(before), fmean(after), error)


def _of_lines(before: Values, after: Values) -> list[TimeChange]:
    """Lines are found again by their text: their numbers change with the lines above them."""
    both = [_by_text(each["lines"]) for each in (before, after)]
    least_ms = MIN_SHARE * _of_steps(before, after).before_ms
    found = []
    for key in dict.fromkeys([*both[0], *both[1]]):
        (before_ms, error_before), (after_ms, error_after) = (each.get(key, (0.0, 0.0)) for each in both)
        if abs(after_ms - before_ms) > least_ms:
            phase, file, function, text = key
            name = f"{phase}, {file}, {function}: {text}"
            found.append(TimeChange(name, before_ms, after_ms, math.hypot(error_before, error_after)))
    return sorted(found, key=lambda change: abs(change.after_ms - change.before_ms), reverse=True)


def _by_text(lines: list[Values]) -> dict[tuple[str, str, str, str], tuple[float, float]]:
    """The milliseconds of each line with their error: the number of samples that met it is a matter of chance."""
    found: dict[tuple[str, str, str, str], tuple[float, float]] = {}
    for line in lines:
        key = line["phase"], Path(line["file"]).name, line["function"], line["text"]
        ms, error = found.get(key, (0.0, 0.0))
        of_chance = line["ms_a_step"] / math.sqrt(max(line["samples"], 1))
        found[key] = ms + line["ms_a_step"], math.hypot(error, of_chance)
    return found
