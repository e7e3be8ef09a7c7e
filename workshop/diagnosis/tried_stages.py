"""The stages of a measurement in which something is tried on copies of the model and of the optimizer."""

import time
from dataclasses import replace

from workshop.diagnosis.findings import MIN_SHARE_OF_STEP
from workshop.diagnosis.measurement import Measurement, Note, NoteKind
from workshop.diagnosis.samples import Observations, observations_of
from workshop.probe.cause import FirstLook, Moment, TriedCause
from workshop.probe.messages import LookCloser, StepUnit, TryCauses
from workshop.probe.own_limits import usable_cores
from workshop.probe.phases import Phase
from workshop.probe.trials import causes_at, tried_causes
from workshop.runs.staged_run import StagedRun

CLOSER_STEPS = 2
"""Steps in which backward passes are attributed to lines; these also warm the script up."""

WATCHED_STEPS = 12
WATCHED_S = 4.0
"""Steps, or seconds, at most, in which it is watched what is computed in vain."""

MIN_BUDGET_S = 8.0
"""Seconds that trials may always take together."""


def look_closer(run: StagedRun, warm_up_steps: int) -> None:
    """Watch a few steps after the first ones in more detail than is possible while steps are timed."""
    tried_causes()  # imports torch, as the script does meanwhile
    run.take(warm_up_steps)
    run.measure(LookCloser(tuple(each.name for each in causes_at(Moment.CLOSER_LOOK))), 0.0, CLOSER_STEPS)
    look = FirstLook(run.circumstances, cores=usable_cores() // (1 + len(run.others)))
    for each in causes_at(Moment.BEFORE):
        if each.is_worth_it(look) and not look.circumstances.compiled:
            run.measure(TryCauses((each.name,)), 0.0, 1)


def try_changes(run: StagedRun, found: Measurement, left_s: float) -> Measurement:
    """Try other ways to compute, and add what came of it.

    Args:
        run: the script; if it has ended, it is said what is not tried therefore.
        found: what is known by now.
        left_s: trials that would take longer together are left out, but not those of a few seconds.
    """
    if run.unit != StepUnit.OPTIMIZER or run.circumstances.compiled or run.circumstances.distributed:
        return found
    look = _look_at(found)
    causes, untried = _worth_it(found, look, max(left_s - WATCHED_S, MIN_BUDGET_S))
    if not run.ended and found.table.share(Phase.BACKWARD, Phase.OPTIMIZER) > MIN_SHARE_OF_STEP:
        run.script.tell("watching who uses gradients")
        run.go_to(TryCauses(tuple(each.name for each in causes_at(Moment.WATCHING))))
        run.take(WATCHED_STEPS, WATCHED_S)
    begun = []
    for each in causes:
        if run.ended:
            break
        begun.append(each.name)
        run.script.tell(f"trying {each.name}")
        if Phase.VALIDATION in each.phases:
            _wait_for_validation(run, TryCauses((each.name,)), 2.0 * look.validations_s)
        else:
            run.measure(TryCauses((each.name,)), 0.0, 1)
    observations = observations_of(run)
    notes = (*found.notes, *untried, *_untold(run, causes, begun, observations))
    return replace(found, observations=observations, notes=notes)


def _untold(run: StagedRun, causes: list[TriedCause], begun: list[str], observations: Observations) -> list[Note]:
    """Say which trials were not begun, and of which nothing came, and why, as far as that is known."""
    tried = observations.trials
    why = "nothing of what it needs came up in these steps"
    if run.ended:
        why = "the script crashed" if run.error else "the script ended before"
    if run.interrupted:
        why = "Ctrl-C was pressed"
    is_told = run.interrupted or run.error
    left = [] if is_told else [each.name for each in causes if each.name not in begun]
    without = [each for each in begun if each not in tried]
    moot = [each for each in begun if each in tried and not tried[each].applies]
    no_result = Note(NoteKind.NO_RESULT, f"Tried, to no result: {', '.join(without)} ({why}).")
    not_begun = Note(NoteKind.NOT_TRIED, f"Not tried: {', '.join(left)} ({why}).")
    nothing = Note(NoteKind.NOT_TRIED, f"Nothing to try for {', '.join(moot)} in this script.")
    return [*[not_begun] * bool(left), *[no_result] * bool(without), *[nothing] * bool(moot)]


def _wait_for_validation(run: StagedRun, stage: TryCauses, seconds: float) -> None:
    """Go to a stage, and wait for the end of a step in which a batch was validated, or for so many seconds."""
    run.go_to(stage)
    before, give_up = run.batches["validation"], time.monotonic() + seconds
    while run.batches["validation"] == before and time.monotonic() < give_up and run.report():
        pass


def _look_at(found: Measurement) -> FirstLook:
    steps, observations = found.steps, found.observations
    validations = [each for each in observations.iterated if not each.training]
    return FirstLook(
        found.circumstances,
        settings=observations.settings,
        operations=max((each.operations for each in observations.backward_passes), default=0),
        validations_s=steps.wall_s / max(sum(steps.began_s <= each.t <= steps.ended_s for each in validations), 1),
    )


def _worth_it(found: Measurement, look: FirstLook, left_s: float) -> tuple[list[TriedCause], list[Note]]:
    """Return what may bring something, what is soon done first, and a sentence about what would take too long."""
    taken, untried = list[TriedCause](), list[str]()
    seconds = {each.name: each.seconds(found.table.ms_in(*each.phases) / 1e3, look) for each in causes_at(Moment.AFTER)}
    for name, each_s in sorted(seconds.items(), key=lambda item: item[1]):
        cause = tried_causes()[name]
        if found.table.share(*cause.phases) < MIN_SHARE_OF_STEP or not cause.is_worth_it(look):
            continue
        if each_s <= left_s:
            taken.append(cause)
            left_s -= each_s
        else:
            untried.append(f"{name} (about {each_s:.0f} s)")
    says = f"Not tried for lack of time: {', '.join(untried)}; --thorough tries all."
    return taken, [Note(NoteKind.NOT_TRIED, says)] * bool(untried)
