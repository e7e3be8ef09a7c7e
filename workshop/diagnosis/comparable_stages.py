"""Whether the stages of a measurement are comparable.

On a busier machine, computing takes longer. So it does after a long wait, in which torch's threads fall asleep: on two
cores, a small forward pass of 0.02 ms took 4.4 ms after 50 ms of waiting, and 0.3 ms with one thread.
"""

import math
from dataclasses import replace

from workshop.diagnosis.loading import MIN_CORES_USED, Loading
from workshop.diagnosis.measurement import Measurement, Note, NoteKind
from workshop.probe.phases import COMPUTING
from workshop.runs.measured_steps import MeasuredSteps

MIN_SHARE = 0.1
"""Share of a step, at least, of a difference in computing that changes a gain."""


def comparable(measurement: Measurement) -> tuple[Measurement, list[Note]]:
    """Return a measurement without the stages whose gain is uncertain, and a sentence on why for each."""
    notes, loading = list[Note](), Loading(measurement)
    if measurement.circumstances.device == "cuda" or not loading.matters:  # it computes asynchronously; no gain follows
        return measurement, []
    headroom, tried = measurement.headroom, dict(measurement.with_workers)
    if headroom and (why := _why_unsure(loading, headroom, "batches from memory", "the headroom is")):
        notes, headroom = [Note(NoteKind.UNSURE_STAGE, why)], None
    whole = measurement.whole_batches
    if whole and (why := _why_unsure(loading, whole, "whole batches", "what they gain is")):
        notes, whole = [*notes, Note(NoteKind.UNSURE_STAGE, why)], None
    for workers, steps in measurement.with_workers.items():
        longer = loading.steps.ms_in(*COMPUTING) > steps.ms_in(*COMPUTING)  # otherwise these workers may slow it down
        if longer and (why := _why_unsure(loading, steps, f"num_workers={workers}", "what that gains is")):
            notes.append(Note(NoteKind.UNSURE_STAGE, why))
            del tried[workers]
    return replace(measurement, headroom=headroom, with_workers=tried, whole_batches=whole), notes


def _why_unsure(loading: Loading, stage: MeasuredSteps, by: str, what: str) -> str:
    """Say why a stage cannot be compared with the steps of the unchanged script; empty if it can.

    It can if the computing differs by less than the gain is, with that difference and without.
    """
    as_it_is, factor = loading.steps, _factor(loading.steps, stage)
    longer_ms = stage.ms_in(*COMPUTING) * (factor - 1.0)
    gain_ms = as_it_is.ms_a_step - stage.ms_a_step
    if abs(longer_ms) < max(min(gain_ms, gain_ms - longer_ms), MIN_SHARE * as_it_is.ms_a_step):
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
