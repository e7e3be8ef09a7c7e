"""Whether the stages of a measurement can be compared: where the machine was busier, computing took longer."""

import math
from dataclasses import replace

from workshop.diagnosis.loading import NEARLY_ALL, Loading
from workshop.diagnosis.measurement import MeasuredSteps, Measurement
from workshop.probe.phases import COMPUTING

BUSIER = 1.5
"""The machine was busier if the same computing took so many times as long."""

MIN_SHARE = 0.1
"""Computing that differs by a smaller share of a step changes no gain much."""

AS_IT_IS = "the script was measured as it is"


def comparable(measurement: Measurement) -> tuple[Measurement, list[str]]:
    """Return a measurement without the stages whose gain is unsure, and why it is: a sentence on each."""
    if measurement.circumstances.device == "cuda":  # its computing goes on beside the phases
        return measurement, []
    notes, loading = [], Loading(measurement)
    headroom, tried = measurement.headroom, dict(measurement.with_workers)
    if headroom and (why := _why_unsure(loading, headroom, "batches from memory", "the headroom is")):
        notes, headroom = [why], None
    for workers, steps in measurement.with_workers.items():
        longer = loading.steps.ms_in(*COMPUTING) > steps.ms_in(*COMPUTING)  # else it may be these workers that hinder
        if longer and (why := _why_unsure(loading, steps, f"num_workers={workers}", "what that gains is")):
            notes.append(why)
            del tried[workers]
    return replace(measurement, headroom=headroom, with_workers=tried), notes


def _why_unsure(loading: Loading, stage: MeasuredSteps, by: str, what: str) -> str:
    """Say why a stage cannot be compared with the steps of the script as it is; empty if it can."""
    factor = _factor(loading.steps, stage)
    differs_ms = abs(loading.steps.ms_in(*COMPUTING) - stage.ms_in(*COMPUTING))
    if max(factor, 1 / factor) < BUSIER or differs_ms < MIN_SHARE * loading.steps.ms_a_step:
        return ""
    if factor < 1:
        return (
            f"The machine was busier with {by}: computing took {1 / factor:.1f}x longer than as it is; {what} unsure."
        )
    if loading.workers and loading.cores_used > NEARLY_ALL:
        return ""
    who = "The machine was busier, or the workers were in the way," if loading.workers else "The machine was busier"
    return f"{who} while {AS_IT_IS}: computing took {factor:.1f}x longer than with {by}; {what} unsure."


def _factor(one: MeasuredSteps, other: MeasuredSteps) -> float:
    """How many times longer the same computing took: for a step, or for what may be more of it in some steps."""
    work = [
        (one.count, other.count),
        (one.samples, other.samples),
        (one.batch_bytes, other.batch_bytes),
        (sum(one.forwards), sum(other.forwards)),
    ]
    times = [each.ms_in(*COMPUTING) * each.count for each in (one, other)]
    factors = [times[0] / a / (times[1] / b) for a, b in work if a and b and all(times)]
    return min(factors, key=lambda factor: abs(math.log(factor)), default=1.0)
