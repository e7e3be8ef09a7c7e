"""Measures any training script in stages: as it is, with batches from memory, with other numbers of workers."""

import math
import time
from dataclasses import replace

from workshop.diagnosis.loading import Loading, other_workers
from workshop.diagnosis.measurement import Measurement, Note, NoteKind
from workshop.diagnosis.samples import Observations, observations_of
from workshop.diagnosis.tried_stages import look_closer, try_changes
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.messages import AsItIs, LoadWith, StepUnit, Synchronized
from workshop.runs.measured_steps import MeasuredSteps
from workshop.runs.script import Say
from workshop.runs.script_error import UnseenError
from workshop.runs.staged_run import (
    INTERRUPTED,
    WARM_UP_STEPS,
    StagedRun,
    how_it_ended,
    led,
    measure_as_it_is,
    measure_headroom,
)

MAX_DURATION_S = 55.0
"""Seconds, at most, after which something is still tried that takes longer than a few."""

MAX_WARM_UP = 4.0
"""Times the measuring time, at most, that the warm-up of a number of workers may take."""

UNTRIED = "Stopped by Ctrl-C, before other numbers of workers were tried to the end: what they would gain is not known."


def measure(
    script: str,
    arguments: list[str],
    seconds: float,
    say: Say = print,
    is_module: bool = False,
    headroom: bool = True,
    thorough: bool = False,
) -> Measurement:
    """Run a script until its steps have been measured, then end it.

    It is started as by `led`. Its steps are measured for `seconds` and, if `headroom` is asked for, with batches from
    memory for half as long. If it is `thorough`, all ways to compute are tried, however long that takes.

    Raises:
        WorkshopError: there is no such script, or no training step was seen.
        ScriptError: it broke before anything was measured.
    """
    all_s = seconds * (2 if headroom else 1)
    with led(script, arguments, is_module, say, f"it takes about {all_s:.0f} s") as (run, load):
        return replace(_in_stages(run, script, seconds, headroom, thorough), machine=load.end())


def _in_stages(run: StagedRun, name: str, seconds: float, headroom: bool, thorough: bool) -> Measurement:
    """Lead a script through the stages, and put together what is measured in them."""
    until_s = time.monotonic() + MAX_DURATION_S
    look_closer(run, WARM_UP_STEPS)
    as_it_is = measure_as_it_is(run, name, f"measuring its steps for {seconds:g} s", seconds)
    notes = _unseen(run)
    if run.unit != StepUnit.OPTIMIZER:
        says = f"No optimizer of torch ends a step of this script: a step is a {run.unit}."
        notes.append(Note(NoteKind.OTHER_STEP, says))
    if run.batches["elsewhere"]:
        says = "Batches are loaded in another thread: the wait for them is under other."
        notes.append(Note(NoteKind.LOADED_ELSEWHERE, says))
    synchronized = run.measure(Synchronized(), seconds / 2) if run.circumstances.device == "cuda" else None
    found = Measurement(
        as_it_is.together,
        synchronized.together if synchronized else None,
        notes=tuple(notes),
        circumstances=run.circumstances,
    )
    if run.others:
        return replace(_of_ranks(found, run), crash=run.crash)
    reached, why_not = measure_headroom(run, as_it_is, seconds / 2, headroom)
    found = _with_headroom(run, found, reached, why_not, seconds)
    found = try_changes(run, found, math.inf if thorough else until_s - time.monotonic())
    said = (*found.notes, *_kept_graphs(found.observations), *_unseen(run))
    return replace(found, notes=tuple(dict.fromkeys(said)), crash=run.crash)


def _unseen(run: StagedRun) -> list[Note]:
    """Say it if the script went on, and was not seen any more."""
    if not isinstance(run.error, UnseenError):
        return []
    return [Note(NoteKind.NOT_SEEN, f"Nothing more was seen of the script: {run.error}")]


def _of_ranks(first: Measurement, run: StagedRun) -> Measurement:
    """The measurement of the first rank, with those of all ranks in it."""
    run.wait_until_written()
    assert run.lead is not None
    steps = {run.lead: first.steps, **run.of_others(AsItIs())}
    synchronized = {run.lead: first.synchronized, **run.of_others(Synchronized())}
    notes = (*first.notes, *[Note(NoteKind.INTERRUPTED, INTERRUPTED)] * run.interrupted)
    observed = {rank: observations_of(run, rank) for rank in sorted(steps)}
    ranks = {
        rank: replace(
            first,
            steps=steps[rank],
            synchronized=synchronized.get(rank),
            notes=(*notes, *_kept_graphs(observed[rank])),
            observations=observed[rank],
        )
        for rank in sorted(steps)
    }
    return replace(ranks[min(ranks)], ranks=ranks)


def _kept_graphs(observations: Observations) -> list[Note]:
    """Say it if the script keeps the graphs of its losses."""
    found = []
    for each in observations.kept_graphs[-1:]:
        frames = observations.user_frames_of(each.stack)
        at = f" (line {frames[-1].line})" if frames else ""
        where = f", in {each.place}," if each.place else ""
        says = (
            f"The losses of {each.kept} of {each.of} watched backward passes{at} are kept with their graphs{where} and "
            "take memory: keep loss.item(), or loss.detach()."
        )
        found.append(Note(NoteKind.KEPT_GRAPHS, says))
    return found


def _with_headroom(
    run: StagedRun, found: Measurement, reached: MeasuredSteps | None, why_not: str, seconds: float
) -> Measurement:
    """Add the headroom, or why there is none, and the trials of other numbers of workers if these may help."""
    run.wait_until_written()
    kind = NoteKind.INTERRUPTED if run.interrupted else NoteKind.NO_HEADROOM
    notes = (*found.notes, *[Note(kind, why_not)] * bool(why_not))
    observations = observations_of(run)
    if observations.lost:
        says = f"Part of what the script did could not be recorded: {observations.lost}."
        notes += (Note(NoteKind.NOT_SEEN, says),)
    found = replace(found, headroom=reached, notes=notes, observations=observations)
    if not reached:
        return found
    tried, failures = _with_workers(run, found, seconds / 4)
    whole, failed = _whole_batches(run, found, seconds / 4)
    return replace(found, with_workers=tried, whole_batches=whole, notes=(*found.notes, *failures, *failed))


def _with_workers(run: StagedRun, found: Measurement, seconds: float) -> tuple[dict[int, MeasuredSteps], list[Note]]:
    """Measure the same loop with other numbers of workers if that may help, and say why if a number cannot load."""
    tried: dict[int, MeasuredSteps] = {}
    failures, loading = list[Note](), Loading(found)
    own = loading.loader.settings if loading.loader else LoaderSettings()
    for workers in other_workers(loading):
        stage = LoadWith(own.with_other_workers(workers))
        if run.ended and not run.error:
            run.start_again("for other numbers of workers")
            run.go_to(stage)
            run.take_epoch(MAX_WARM_UP * seconds)  # at its end, the script's own workers are ended
        run.script.tell(f"trying it with num_workers={workers}")
        steps = run.measure_loading(stage, seconds, MAX_WARM_UP * seconds)
        if run.error or run.interrupted:
            failures += [_to_no_result(run, f"num_workers={workers}", seconds)] * bool(run.error)
            break
        if steps:
            tried[workers] = steps.together
        else:
            failures.append(_to_no_result(run, f"num_workers={workers}", seconds))
    return tried, [*failures, *[Note(NoteKind.INTERRUPTED, UNTRIED)] * run.interrupted]


def _whole_batches(run: StagedRun, found: Measurement, seconds: float) -> tuple[MeasuredSteps | None, list[Note]]:
    """Measure the same loop with batches that are taken at once, if they are put together from single samples."""
    loading = Loading(found)
    if run.error or run.interrupted or not loading.matters or not (loading.loader and loading.loader.singles):
        return None, []
    stage = LoadWith(replace(loading.loader.settings, workers=0, whole_batches=True))
    if run.ended:
        run.start_again("for whole batches")
    run.script.tell("trying it with whole batches")
    steps = run.measure_loading(stage, seconds, MAX_WARM_UP * seconds)
    if steps:
        return steps.together, []
    return None, [_to_no_result(run, "whole batches", seconds, "its dataset takes no list of indices")]


def _to_no_result(run: StagedRun, what: str, seconds: float, failed: str = "nothing could be loaded") -> Note:
    """Say why a trial of the loading came to nothing."""
    if run.ended:
        why = how_it_ended(run.error) if run.error else "the script ended before"
    elif run.last and run.last.failure:
        why = f"{failed}: {run.last.failure}"
    else:
        why = (
            f"the training did not come to what was loaded within {MAX_WARM_UP * seconds:.3g} s; a larger --seconds "
            "gives it more time"
        )
    return Note(NoteKind.NO_RESULT, f"Tried {what}, to no result: {why}.")
