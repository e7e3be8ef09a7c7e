"""A measurement with all that was found in it, as plain values."""

import linecache
from typing import Any

from workshop.diagnosis.causes import findings
from workshop.diagnosis.line_table import line_table
from workshop.diagnosis.measurement import Measurement


def as_dict(measurement: Measurement) -> dict[str, Any]:
    """Return the steps, what holds them up, and the lines of each phase, as plain values for JSON."""
    return {
        "steps": measurement.steps.as_dict(),
        "synchronized": measurement.synchronized and measurement.synchronized.as_dict(),
        "headroom": measurement.headroom and measurement.headroom.as_dict(),
        "findings": [each.as_dict() for each in findings(measurement)],
        "lines": [each.as_dict() for each in line_table(measurement)],
        "notes": measurement.notes,
    }


def sources(values: dict[str, Any]) -> dict[str, list[str]]:
    """Return the lines of each file that a measurement names, by its path; of those that can be read."""
    named = {each["file"] for each in [*values["findings"], *values["lines"]]}
    return {path: lines for path in named if (lines := linecache.getlines(path))}
