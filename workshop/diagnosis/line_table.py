"""Which lines of user code take the time of each phase."""

import linecache
from collections import Counter
from dataclasses import dataclass

from workshop.diagnosis.loading import Loading
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.user_lines import time_by_line
from workshop.probe.phases import Phase
from workshop.probe.stack_sampler import PERIOD_S
from workshop.profiles.stacks import Frame


@dataclass(frozen=True)
class LineTime:
    """The time that a phase spends in a line of user code, including its calls into libraries."""

    phase: str
    file: str
    line: int | None
    function: str
    process: str
    """"training" or "worker"."""
    ms_a_step: float
    share: float
    """The share of a step's time."""
    text: str
    """The source of the line."""
    samples: int
    """The approximate number of samples that hit the line."""


def line_table(measurement: Measurement) -> list[LineTime]:
    """Return the lines of user code of each phase, in the order of the phases, those with most time first.

    What workers load is divided among the lines of the workers, and a backward pass among the lines of the forward pass
    that have made its operations.
    """
    loading, table = Loading(measurement), []
    for phase in Phase:
        paths = measurement.user_paths(measurement.table, phase)
        process, weights, together = "training", time_by_line(paths), sum(weight for _, weight in paths)
        if phase == Phase.DATA_WAIT and loading.workers:
            process, weights = "worker", time_by_line(loading.user_paths(lambda _: True))
            together = sum(weights.values())
        elif phase == Phase.BACKWARD and measurement.observations.backward_passes:
            weights = _of_forward(measurement)
            together = sum(weights.values())
        for frame, weight in weights.most_common():
            part = weight / together
            text = linecache.getline(frame.path, frame.line or 0).strip()
            ms, share = part * measurement.table.ms_in(phase), part * measurement.table.share(phase)
            samples = round(weight / PERIOD_S)
            table.append(LineTime(phase, frame.path, frame.line, frame.name, process, ms, share, text, samples))
    return table


def _of_forward(measurement: Measurement) -> Counter[Frame]:
    """The lines of the forward pass, by the time of their operations in the backward pass."""
    observations = measurement.observations
    return time_by_line(
        (observations.user_frames_of(stack), seconds)
        for each in observations.backward_passes
        for seconds, _, stack in each.parts
    )
