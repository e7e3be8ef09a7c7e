"""Steps of a measurement, given how long they take in each phase."""

from collections.abc import Mapping
from typing import Any

from workshop.probe.phases import Phase
from workshop.runs.measured_steps import MeasuredSteps


def made_steps(phases_ms: Mapping[Phase, float], count: int = 10, began_s: float = 0.0, **fields: Any) -> MeasuredSteps:
    """Steps of the same length, with so many milliseconds in each phase."""
    phases_s: dict[str, float] = {phase: phases_ms.get(phase, 0.0) * count / 1e3 for phase in Phase}
    wall_s = sum(phases_s.values())
    fields = {"durations_s": (wall_s / count,) * count, "ended_s": began_s + wall_s} | fields
    return MeasuredSteps(count, wall_s, phases_s, 8 * count, began_s=began_s, **fields)
