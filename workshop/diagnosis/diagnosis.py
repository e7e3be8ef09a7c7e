"""The diagnosis of a measurement: the bottlenecks, and the lines that take each phase's time."""

import linecache
import math
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from workshop.diagnosis.causes import findings
from workshop.diagnosis.causes.growing_steps import getting_shorter
from workshop.diagnosis.findings import Finding, in_order
from workshop.diagnosis.headrooms import Headrooms
from workshop.diagnosis.loading import MIN_CORES_USED, Loading
from workshop.diagnosis.measurement import Measurement, Note, NoteKind
from workshop.diagnosis.ranks import slow_rank, waits_ms
from workshop.diagnosis.timeline import UNLIKE_TRACED, Timeline
from workshop.diagnosis.tried import tried_changes
from workshop.diagnosis.user_lines import place_of, time_by_line
from workshop.probe.phases import COMPUTING, Phase
from workshop.probe.stack_sampler import PERIOD_S
from workshop.profiles.stacks import Frame
from workshop.runs.measured_steps import MeasuredSteps
from workshop.traces.step_lines import LinePart


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
    """The approximate number of samples that hit the line, or would have in the time for which it was traced."""
    host_ms: float | None = None
    """In steps that were traced: for how long the host was in this line, and did not wait; None if none were."""
    device_ms: float | None = None
    """What it asked a GPU for; on a CPU, what operators did."""
    waits_ms: float | None = None
    """For how long the host waited in this line, for a result of the GPU or for room in its queue of launches."""
    waits_for: str | None = None
    """The file and the number of the line whose work the GPU did meanwhile."""


@dataclass(frozen=True)
class Diagnosis:
    """A measurement with everything found in it."""

    measurement: Measurement
    """The script's measurement; with several ranks, that of the rank the others wait for longest."""
    findings: list[Finding]
    """The bottlenecks, those with the largest potential speedup first."""
    lines: list[LineTime]
    headrooms: Headrooms | None = None
    """The headrooms of a process, of stages that are comparable with the unchanged script; None for several ranks."""
    rank: int | None = None
    """The rank that is shown; None for a run of one process."""
    waits_ms: dict[int, float] = field(default_factory=dict)
    """How long each rank waits for the others in a step."""

    @property
    def headroom(self) -> MeasuredSteps | None:
        """The steps with batches from memory, if they are comparable with those of the unchanged script."""
        return self.headrooms.measurement.headroom if self.headrooms else None

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
            "headrooms": self.headrooms and self.headrooms.as_dict(),
            "with_workers": {workers: each.as_dict() for workers, each in found.with_workers.items()},
            "whole_batches": found.whole_batches and found.whole_batches.as_dict(),
            "trials": [each.as_dict() for each in tried_changes(found)],
            "findings": [each.as_dict() for each in self.findings],
            "lines": [asdict(each) for each in self.lines],
            "traced_on": found.circumstances.device if found.traced else None,
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
        return Diagnosis(with_notes, findings(sure), line_table(measurement), Headrooms(sure))
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


# The lines of each phase


def line_table(measurement: Measurement) -> list[LineTime]:
    """Return the lines of user code of each phase, in the order of the phases, those with most time first.

    What workers load is divided among the lines of the workers, and a backward pass among the lines of the forward pass
    that have made its operations. Where steps were traced, a moment of a phase is that of the line whose work the
    device does or, while it does nothing, of the line that the host is in.
    """
    loading, table = Loading(measurement), []
    as_it_is = Timeline(replace(measurement, synchronized=None))
    for phase in Phase:
        if traced := _traced(as_it_is, measurement, phase):
            table += traced
            continue
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


def _traced(as_it_is: Timeline, measurement: Measurement, phase: Phase) -> list[LineTime]:
    """The lines of a phase that was traced; a wait for data, or a validation, is not as the script has it."""
    steps, parts = measurement.table, [each for each in measurement.traced if each.phase == phase]
    together = sum(each.device_s + each.alone_s for each in parts)
    if phase in (Phase.DATA_WAIT, Phase.VALIDATION) or not together:
        return []
    found = []
    for each in sorted(parts, key=lambda part: part.device_s + part.alone_s, reverse=True):
        seconds, place = each.device_s + each.alone_s, each.place
        text = linecache.getline(place.file, place.line).strip() if place.file else place.name
        part, line = seconds / together, place.line if place.file else None
        share, samples = part * steps.share(phase), round(seconds * steps.count / PERIOD_S)
        waits_s, waits_for = _waits(as_it_is, each)
        figures = part * steps.ms_in(phase), share, text, samples, each.host_s * 1e3, each.device_s * 1e3
        found.append(LineTime(phase, place.file, line, place.function, "training", *figures, waits_s * 1e3, waits_for))
    return found


def _waits(as_it_is: Timeline, part: LinePart) -> tuple[float, str | None]:
    """How long the host waits in a line in a phase, also of steps that are not traced, and for which line."""
    measurement = as_it_is.measurement
    here = [each for each in measurement.traced if each.place == part.place and each.phase not in UNLIKE_TRACED]
    is_main = part == max(here, key=lambda each: each.host_s, default=None)
    sampled_s = as_it_is.waits_s.get(place_of(part.frame), 0.0) if is_main else 0.0
    waits_s = max(part.result_s + part.queue_s, sampled_s)
    asked = [each for each in measurement.traced if each.place.file]
    longest = max(asked, key=lambda each: each.device_s).place if asked else None
    place = part.waits_for or longest  # a wait that was only sampled is one for room in the queue
    return waits_s, f"{Path(place.file).name}:{place.line}" if place and waits_s else None


def _of_forward(measurement: Measurement) -> Counter[Frame]:
    """The lines of the forward pass, by the time of their operations in the backward pass."""
    observations = measurement.observations
    return time_by_line(
        (observations.user_frames_of(stack), seconds)
        for each in observations.backward_passes
        for seconds, _, stack in each.parts
    )


# Whether the stages of a measurement are comparable


def comparable(measurement: Measurement) -> tuple[Measurement, list[Note]]:
    """Return a measurement without the stages whose gain is uncertain, and a sentence on why for each.

    On a busier machine, computing takes longer. So it does after a long wait, in which torch's threads fall asleep: on
    two cores, a small forward pass of 0.02 ms took 4.4 ms after 50 ms of waiting, and 0.3 ms with one thread.
    """
    notes, loading = list[Note](), Loading(measurement)
    if measurement.circumstances.device == "cuda" or not loading.matters:  # it computes asynchronously; no gain follows
        return measurement, []

    def if_sure(stage: MeasuredSteps | None, by: str, what: str) -> MeasuredSteps | None:
        why = _why_unsure(loading, stage, by, what) if stage else ""
        notes.extend([Note(NoteKind.UNSURE_STAGE, why)] * bool(why))
        return None if why else stage

    headroom = if_sure(measurement.headroom, "batches from memory", "the headroom is")
    whole = if_sure(measurement.whole_batches, "whole batches", "what they gain is")
    tried = {}
    for workers, steps in measurement.with_workers.items():
        shorter = loading.steps.ms_in(*COMPUTING) <= steps.ms_in(*COMPUTING)  # these workers may slow it down
        if shorter or if_sure(steps, f"num_workers={workers}", "what that gains is"):
            tried[workers] = steps
    return replace(measurement, headroom=headroom, with_workers=tried, whole_batches=whole), notes


def _why_unsure(loading: Loading, stage: MeasuredSteps, by: str, what: str) -> str:
    """Say why a stage cannot be compared with the steps of the unchanged script; empty if it can.

    It can if the computing differs by less than the gain is, with that difference and without, or than a tenth of a
    step.
    """
    as_it_is, factor = loading.steps, _factor(loading.steps, stage)
    longer_ms = stage.ms_in(*COMPUTING) * (factor - 1.0)
    gain_ms = as_it_is.ms_a_step - stage.ms_a_step
    if abs(longer_ms) < max(min(gain_ms, gain_ms - longer_ms), 0.1 * as_it_is.ms_a_step):
        return ""
    if factor < 1:
        return (
            f"The machine was busier with {by}: computing took {1 / factor:.1f}x longer than as it is; {what} unsure."
        )
    if loading.workers and loading.cores_used > MIN_CORES_USED:
        return ""
    longer = f"Computing took {factor:.1f}x longer in the unchanged script than with {by}"
    workers = ", or the workers were in the way" if loading.workers else ""
    why = f"other programs were at work{workers}, or torch's threads had to wake up after each wait"
    return f"{longer}: {why}; {what} unsure."


def _factor(one: MeasuredSteps, other: MeasuredSteps) -> float:
    """How many times longer the same computing took: per step, sample, byte or forward pass, the one nearest 1."""
    work = [
        (one.count, other.count),
        (one.samples, other.samples),
        (one.batch_bytes, other.batch_bytes),
        (sum(one.forwards), sum(other.forwards)),
    ]
    times = [each.ms_in(*COMPUTING) * each.count for each in (one, other)]
    factors = [times[0] / a / (times[1] / b) for a, b in work if a and b and all(times)]
    return min(factors, key=lambda factor: abs(math.log(factor)), default=1.0)
