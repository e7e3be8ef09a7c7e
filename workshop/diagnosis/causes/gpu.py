"""Causes that only a GPU has: lines that wait for it, and copies from memory that is not pinned."""

from pathlib import Path

from workshop.diagnosis.findings import MIN_SHARE_OF_STEP, Finding, finding, gain_of
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.tried import NewResults, TriedChange, tried_changes
from workshop.diagnosis.user_lines import hottest, place_of
from workshop.probe.cause import Cause
from workshop.probe.phases import Phase
from workshop.runs.measured_steps import MeasuredSteps

DEVICE_SYNC = Cause(
    "device-sync",
    "This line waits until the GPU has done all it was asked to{most}, and the GPU then waits for the next step: keep "
    "results on the GPU, and read them, as .item(), .cpu() and print do, only every so many steps, unless the next "
    "step depends on them.",
)
PAGEABLE_COPY = Cause(
    "pageable-copy",
    "{megabytes:.1f} MB a step are copied to the GPU from memory that is not pinned: pass pin_memory=True to the "
    "DataLoader, and copy with non_blocking=True.{tried}",
)


def gpu_findings(measurement: Measurement) -> list[Finding]:
    """Return the bottlenecks at the GPU; none without one."""
    if measurement.synchronized is None:
        return []
    return [
        *_device_sync(measurement, measurement.synchronized),
        *_pageable_copy(measurement, measurement.synchronized),
    ]


def _device_sync(measurement: Measurement, synchronized: MeasuredSteps) -> list[Finding]:
    """The line that waits for the GPU: slow in the unchanged script, fast if the phase before has already waited.

    The GPU works while the line waits, and idles while the rest of the step runs on the CPU. At best both always
    overlap: then a step takes as long as the longer of the two. A line in which the host only waits for room in the
    queue of launches is not at fault.
    """
    as_it_is = measurement.steps
    waits = [(path, weight / as_it_is.count) for path, weight in measurement.user_paths(as_it_is, Phase.OTHER)]
    waits += [
        (path, -weight / synchronized.count) for path, weight in measurement.user_paths(synchronized, Phase.OTHER)
    ]
    asks = sorted(measurement.traced, key=lambda each: each.phase == Phase.OTHER)  # its line is that of this phase
    for_result = {place_of(each.frame): each.waits_for for each in asks if each.results}
    queued = {place_of(each.frame) for each in measurement.traced if each.launches} - for_result.keys()
    waits = [(path, weight) for path, weight in waits if not (path and place_of(path[-1]) in queued)]
    line, step_s = hottest(waits), measurement.steps.ms_a_step / 1e3
    if line is None or line.weight < MIN_SHARE_OF_STEP * step_s:
        return []
    asked = for_result.get(place_of(line.frame))
    most = f", the largest part of it in {Path(asked.file).name}:{asked.line}" if asked and asked.file else ""
    return [
        finding(
            DEVICE_SYNC,
            DEVICE_SYNC.words.format(most=most),
            gain=gain_of(step_s, max(step_s - line.weight, line.weight)),
            path=line.path,
            ms_a_step=line.weight * 1e3,
            share=line.weight / step_s,
        )
    ]


def _pageable_copy(measurement: Measurement, synchronized: MeasuredSteps) -> list[Finding]:
    """Copies to the GPU from memory that is not pinned: the driver must copy it to pinned memory first.

    A faster copy was measured, if it was tried; that the CPU no longer waits for it, and can go on, is estimated.
    """
    steps, share = measurement.steps, synchronized.share(Phase.COPY)
    copies = [each for each in tried_changes(measurement) if each.name == PAGEABLE_COPY.name and not each.error]
    tried = copies[0] if copies else None
    if not steps.pageable_bytes or share < MIN_SHARE_OF_STEP or (tried and not tried.has_effect):
        return []
    line = hottest(measurement.user_paths(synchronized, Phase.COPY))
    return [
        finding(
            PAGEABLE_COPY,
            PAGEABLE_COPY.words.format(
                megabytes=steps.pageable_bytes / steps.count / 1e6, tried=_tried(tried) if tried else ""
            ),
            gain=gain_of(1.0, 1.0 - share),
            low=tried.gain if tried else None,
            phase=Phase.COPY,
            path=line.path if line else (),
            ms_a_step=share * steps.ms_a_step,
            share=share,
        )
    ]


def _tried(change: TriedChange) -> str:
    about, before_ms, after_ms = change.trial.about, change.trial.as_it_is_s * 1e3, change.trial.changed_s * 1e3
    took = f"a copy of {about} took {before_ms:.2f} ms, from pinned memory {after_ms:.2f}"
    return f" Tried: {took}. {NewResults.SAME.value}"
