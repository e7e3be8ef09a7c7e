"""The diagnosis of a measurement: the bottlenecks, and the lines that take each phase's time."""

import linecache
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from workshop.diagnosis.causes import findings
from workshop.diagnosis.causes.growing_steps import getting_shorter
from workshop.diagnosis.comparable_stages import comparable
from workshop.diagnosis.findings import Finding, in_order
from workshop.diagnosis.line_table import LineTime, line_table
from workshop.diagnosis.measurement import Measurement, Note, NoteKind
from workshop.diagnosis.ranks import slow_rank, waits_ms
from workshop.diagnosis.tried import tried_changes
from workshop.probe.phases import Phase
from workshop.runs.measured_steps import MeasuredSteps


@dataclass(frozen=True)
class Diagnosis:
    """A measurement with everything found in it."""

    measurement: Measurement
    """The script's measurement; with several ranks, that of the rank the others wait for longest."""
    findings: list[Finding]
    """The bottlenecks, those with the largest potential speedup first."""
    lines: list[LineTime]
    headroom: MeasuredSteps | None = None
    """The steps with batches from memory, if they are comparable with those of the unchanged script."""
    rank: int | None = None
    """The rank that is shown; None for a run of one process."""
    waits_ms: dict[int, float] = field(default_factory=dict)
    """How long each rank waits for the others in a step."""

    def as_dict(self) -> dict[str, Any]:
        """Return the steps, their bottlenecks, and the lines of each phase, as plain values for JSON."""
        found, table = self.measurement, self.measurement.table
        ranks = [
            {"rank": rank, "waits_ms": self.waits_ms[rank], "steps": each.steps.as_dict()}
            for rank, each in found.ranks.items()
        ]
        return {
            "phases": {str(phase): {"ms_a_step": table.ms_in(phase), "share": table.share(phase)} for phase in Phase},
            "steps": found.steps.as_dict(),
            "synchronized": found.synchronized and found.synchronized.as_dict(),
            "headroom": found.headroom and found.headroom.as_dict(),
            "with_workers": {workers: each.as_dict() for workers, each in found.with_workers.items()},
            "whole_batches": found.whole_batches and found.whole_batches.as_dict(),
            "trials": [each.as_dict() for each in tried_changes(found)],
            "findings": [each.as_dict() for each in self.findings],
            "lines": [asdict(each) for each in self.lines],
            "crash": found.crash and found.crash.as_dict(),
            "notes": list(map(str, found.notes)),
            "machine": found.machine and found.machine.as_dict(),
            "rank": self.rank,
            "ranks": ranks,
        }

    def sources(self) -> dict[str, list[str]]:
        """Return the lines of each readable file that is named, by its path."""
        named = {each.file for each in self.findings} | {each.file for each in self.lines}
        return {path: lines for path in named if (lines := linecache.getlines(path))}


def diagnose(measurement: Measurement) -> Diagnosis:
    """Find the bottlenecks of a script; the first note is that the machine was busy, if it was."""
    if measurement.machine and measurement.machine.busy:
        busy = Note(NoteKind.BUSY_MACHINE, str(measurement.machine))
        measurement = replace(measurement, notes=(busy, *measurement.notes))
    if not measurement.ranks:
        sure, notes = comparable(measurement)
        with_notes = replace(measurement, notes=(*measurement.notes, *notes, *getting_shorter(measurement)))
        return Diagnosis(with_notes, findings(sure), line_table(measurement), sure.headroom)
    waits = waits_ms(measurement.ranks)
    rank, waited_for = slow_rank(measurement.ranks, waits)
    of_shown = measurement.ranks[rank]
    noted = (*measurement.notes, *getting_shorter(of_shown))
    machine, crash = measurement.machine, measurement.crash
    shown = replace(of_shown, ranks=measurement.ranks, notes=noted, machine=machine, crash=crash)
    of_rank = [replace(each, process=_of_rank(rank, each.process)) for each in findings(shown)]
    return Diagnosis(shown, in_order([*waited_for, *of_rank]), line_table(shown), rank=rank, waits_ms=waits)


def _of_rank(rank: int, process: str) -> str:
    return f"rank {rank}" if process == "training" else f"rank {rank}, {process}"
