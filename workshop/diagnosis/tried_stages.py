"""The last stages of a measurement, in which other ways to compute are tried on copies."""

import time
from dataclasses import replace

from workshop.diagnosis.findings import LITTLE
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations, observations_of
from workshop.diagnosis.tried import PHASES, zeroing
from workshop.probe.messages import StepUnit
from workshop.probe.phases import Phase
from workshop.probe.settings import (
    TRIAL_OF_COPY,
    TRIAL_OF_VALIDATION,
    TRIALS_OF_MODEL,
    TRIALS_OF_OPTIMIZER,
    TRIALS_ON_CUDA,
)
from workshop.runs.staged_run import StagedRun

GRADIENT_STEPS = 12
GRADIENT_S = 4.0
"""For this many steps or seconds, it is watched who reads gradients."""

MIN_BUDGET_S = 8.0
"""Trials may always take so long together."""

COMPILE = "torch-compile"

PASSES = 16
SEARCH_PASSES = 12
"""A trial runs about this many passes, and so many more to find a number of threads."""

COMPILE_S = 12.0
COMPILE_OPERATION_S = 0.2
"""torch.compile takes about this long on two cores, and so much longer for each operation of a backward pass."""


def try_changes(run: StagedRun, found: Measurement, left_s: float) -> Measurement:
    """Try other ways to compute, and add what came of it.

    Args:
        run: the script; nothing is tried if it has ended.
        found: what is known by now.
        left_s: trials that would take longer together are left out, but not those of a few seconds.
    """
    if run.ended or run.unit != StepUnit.OPTIMIZER or run.circumstances.compiled or run.circumstances.distributed:
        return found
    names, untried = _worth_it(found, max(left_s - GRADIENT_S, MIN_BUDGET_S))
    if found.table.share(Phase.BACKWARD, Phase.OPTIMIZER) > LITTLE:
        run.script.tell("watching who uses gradients")
        run.go_to("gradients")
        run.take(GRADIENT_STEPS, GRADIENT_S)
    begun = []
    for each in names:
        if run.ended:
            break
        begun.append(each)
        run.script.tell(f"trying {each}")
        if each == TRIAL_OF_VALIDATION:
            _wait_for_validation(run, f"trial {each}", 2.0 * _seconds_to_validation(found))
        else:
            run.measure(f"trial {each}", 0.0, 1)
    observations = observations_of(run)
    notes = (*found.notes, *untried, *_untold(run, begun, observations))
    return replace(found, observations=observations, notes=notes)


def _untold(run: StagedRun, begun: list[str], observations: Observations) -> list[str]:
    """Say of which trials that were begun nothing came, and why, as far as that is known."""
    tried = observations.trials
    why = "nothing of what it needs came up in these steps"
    if run.ended:
        why = "the script crashed" if run.error else "the script ended before"
    if run.interrupted:
        why = "Ctrl-C was pressed"
    without = [each for each in begun if each not in tried]
    found = [f"Tried, to no result: {', '.join(without)} ({why})."] if without else []
    moot = [each for each in begun if each in tried and not tried[each].applies]
    return [*found, *[f"Nothing to try for {', '.join(moot)} in this script."] * bool(moot)]


def _wait_for_validation(run: StagedRun, stage: str, seconds: float) -> None:
    """Go to a stage, and wait for the end of a step in which a batch was validated, or for so many seconds."""
    run.go_to(stage)
    before, give_up = run.batches["validation"], time.monotonic() + seconds
    while run.batches["validation"] == before and time.monotonic() < give_up and run.report():
        pass


def _worth_it(found: Measurement, left_s: float) -> tuple[list[str], list[str]]:
    """Return the trials that may bring something, in their order, and a sentence about those that take too long."""
    names, untried = [], []
    is_cuda = found.circumstances.device == "cuda"
    has_nothing = {
        **dict.fromkeys((*TRIALS_ON_CUDA, TRIAL_OF_COPY), not is_cuda),
        "set-to-none": not zeroing(found.observations),
    }
    for name in (*TRIALS_OF_OPTIMIZER, *TRIALS_OF_MODEL, TRIAL_OF_COPY, TRIAL_OF_VALIDATION, COMPILE):
        phases = PHASES[name]
        if found.table.share(*phases) < LITTLE or has_nothing.get(name):
            continue
        each_s = _seconds_to_try(found, name)
        if each_s <= left_s:
            names.append(name)
            left_s -= each_s
        else:
            untried.append(f"{name} (about {each_s:.0f} s)")
    return names, [f"Not tried for lack of time: {', '.join(untried)}; --thorough tries all."] if untried else []


def _seconds_to_try(found: Measurement, name: str) -> float:
    """Return about how long a trial takes."""
    if name == TRIAL_OF_VALIDATION:  # of which one call is tried, as soon as it comes
        return _seconds_to_validation(found)
    pass_s = found.table.ms_in(*PHASES[name]) / 1e3
    passes = PASSES + SEARCH_PASSES * (name == "other-threads")
    return passes * pass_s + (_seconds_to_compile(found) if name == COMPILE else 0.0)


def _seconds_to_validation(found: Measurement) -> float:
    """Return about how long it takes from one validation to the next."""
    steps = found.steps
    validations = (each for each in found.observations.iterated if not each.training)
    return steps.wall_s / max(sum(steps.began_s <= each.t <= steps.ended_s for each in validations), 1)


def _seconds_to_compile(found: Measurement) -> float:
    passes = found.observations.backward_passes
    operations = max((each.operations for each in passes), default=0)
    return COMPILE_S + COMPILE_OPERATION_S * operations
