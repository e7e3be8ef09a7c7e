"""Some steps of a script in a row: what was reported of each, and all of them together."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from workshop.noise import Floats
from workshop.probe.messages import BatchCounts, StepReport
from workshop.probe.phases import Phase


@dataclass(frozen=True)
class MeasuredSteps:
    """Some steps in a row, together."""

    count: int
    wall_s: float
    """Their time by the clock of the measuring process, which is not the training one."""
    phases_s: dict[str, float]
    """Seconds in each phase, by the clock of the process that trains."""
    samples: int
    durations_s: tuple[float, ...] = ()
    """The duration of each step, by the clock of the process that trains."""
    began_s: float = 0.0
    """When the first of them began, and when the last ended, on the monotonic clock."""
    ended_s: float = 0.0
    blocks_ms: tuple[dict[str, float], ...] = ()
    """Milliseconds per step in each phase, for about 20 consecutive parts: their scatter tells the noise."""
    batches: int = 0
    """The number of batches that DataLoaders handed out for the training."""
    batch_bytes: int = 0
    """The total size of these batches."""
    pageable_bytes: int = 0
    """The bytes copied to a GPU from memory that is not pinned."""
    first_step: int = 0
    """The number of the first step, from 0."""
    backward_s: tuple[float, ...] = ()
    """When the last backward pass of each step began, on the monotonic clock."""
    forwards: tuple[int, ...] = ()
    """The number of module calls by the script itself, in each step."""

    @property
    def samples_per_s(self) -> float:
        """Samples per second."""
        return self.samples / self.wall_s

    @property
    def ms_a_step(self) -> float:
        """The mean time of a step in milliseconds."""
        return self.wall_s / self.count * 1e3

    @property
    def ends_s(self) -> Floats:
        """When each step ended, on the monotonic clock."""
        durations_s = np.array(self.durations_s)
        return np.asarray(self.ended_s - (durations_s.sum() - np.cumsum(durations_s)))

    def ms_in(self, *phases: Phase) -> float:
        """Return the mean time of a step in some phases, in milliseconds."""
        return sum(self.phases_s[phase] for phase in phases) / self.count * 1e3

    def share(self, *phases: Phase) -> float:
        """Return the share of some phases in the time of all."""
        return sum(self.phases_s[phase] for phase in phases) / sum(self.phases_s.values())

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"samples_per_s": self.samples_per_s}


class Stage:
    """The reports of some steps in a row, and their time; None for the sum of the steps' durations."""

    def __init__(self, reports: Sequence[StepReport], wall_s: float | None = None) -> None:
        self.reports = reports
        self.wall_s = sum(each.seconds for each in reports) if wall_s is None else wall_s

    def like(self, other: "Stage") -> "Stage":
        """Return these steps with the epoch beginnings of the other stage, without their wait for data.

        What a script does between two epochs, such as a validation, is then the same in both.
        """
        begun = [_without_wait(each) for each in other.reports if each.epochs_begun]
        mine, others = ([each for each in stage.reports if not each.epochs_begun] for stage in (self, other))
        if not mine or not others:
            return self
        for_each = _steps(others) / max(_steps(begun), 1)  # steps within epochs per step that begins one
        within = _steps(mine)
        if begun and within < for_each * _steps(begun):
            return Stage([*mine, *_first(begun, within / for_each)])
        return Stage([*_first(mine, for_each * _steps(begun) if begun else within), *begun])

    @property
    def together(self) -> MeasuredSteps:
        """The steps together."""
        durations_s = tuple(each / 1e6 for report in self.reports for each in report.durations_us)
        counts: list[BatchCounts] = [report.batches for report in self.reports]
        return MeasuredSteps(
            count=len(durations_s),
            wall_s=self.wall_s,
            phases_s={str(phase): sum(report.phases[phase] for report in self.reports) for phase in Phase},
            samples=sum(report.samples for report in self.reports),
            durations_s=durations_s,
            began_s=min(report.ended_s - report.seconds for report in self.reports),
            ended_s=max(report.ended_s for report in self.reports),
            blocks_ms=tuple(_blocks_ms(self.reports)),
            batches=sum(each.training for each in counts),
            batch_bytes=sum(each.bytes for each in counts),
            pageable_bytes=sum(each.pageable_bytes for each in counts),
            first_step=self.reports[0].first_step,
            backward_s=tuple(each for report in self.reports for each in report.backward_s),
            forwards=tuple(each for report in self.reports for each in report.forwards),
        )


def _steps(reports: Sequence[StepReport]) -> int:
    return sum(each.steps for each in reports)


def _without_wait(report: StepReport) -> StepReport:
    seconds = report.seconds
    left = max(0.0, 1.0 - report.phases[Phase.DATA_WAIT] / seconds) if seconds else 1.0
    durations_us = tuple(round(each * left) for each in report.durations_us)
    return replace(report, durations_us=durations_us, phases={**report.phases, Phase.DATA_WAIT: 0.0})


def _first(reports: Sequence[StepReport], steps: float) -> Iterator[StepReport]:
    """The first reports that together have at least this number of steps."""
    for report in reports:
        if steps <= 0:
            return
        steps -= report.steps
        yield report


def _blocks_ms(reports: Sequence[StepReport], blocks: int = 20) -> Iterator[dict[str, float]]:
    size = -(-len(reports) // blocks)
    for begin in range(0, len(reports), size):
        block = reports[begin : begin + size]
        count = sum(report.steps for report in block)
        yield {str(phase): sum(report.phases[phase] for report in block) / count * 1e3 for phase in Phase}
