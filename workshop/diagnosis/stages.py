"""Measures any training script in stages: as it is, with batches from memory, with other numbers of workers."""

import math
import sys
import time
from dataclasses import replace
from pathlib import Path

from workshop.diagnosis.loading import Loading, other_workers
from workshop.diagnosis.measurement import MeasuredSteps, Measurement, Stage
from workshop.diagnosis.samples import Observations, read_observations
from workshop.diagnosis.staged_run import TORCHRUN, MeasuredScript, StagedRun
from workshop.diagnosis.tried_stages import try_changes
from workshop.errors import WorkshopError
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.messages import Circumstances, SetStage, StepUnit
from workshop.probe.settings import WRITTEN_EVERY_S
from workshop.profiles.file_kind import require_script
from workshop.runs.machine import usable_cores
from workshop.runs.other_load import LoadMeter
from workshop.runs.script import Say, ScriptError, UnseenError, run_folder
from workshop.runs.syntax import require_syntax, script_in

WARM_UP_STEPS = 2
PATIENCE_S = 600.0

MAX_DURATION_S = 55.0
"""After so long, only what takes a few seconds is still tried."""

CLOSER_STEPS = 2
"""For this many steps, backward passes are attributed to lines; these steps also warm the script up."""

MIN_STEPS = 10
"""A script that trains for fewer steps may end before any was measured."""

MAX_WARM_UP = 4.0
"""A number of workers is given up if its warm-up takes more than this many times the measuring time."""

LAST_WRITTEN_S = 1.2 * WRITTEN_EVERY_S
"""After this time, a process has written its last samples to disk."""

INTERRUPTED = "Stopped by Ctrl-C: this is what was seen until then, without the headroom."
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

    Args:
        script: any training script; it runs in the present folder, and writes what it always writes. Processes
            that it starts to train, such as ranks, are measured, too; "torchrun" starts them itself.
        arguments: the arguments of the script.
        seconds: how long its steps are measured; the steps with batches from memory half as long.
        say: told of the progress.
        is_module: the script is named as in `python -m package.train`.
        headroom: also measure with batches from memory.
        thorough: try all ways to compute, however long that takes.

    Raises:
        WorkshopError: there is no such script, or no training step was seen.
        ScriptError: it broke before anything was measured.
    """
    with run_folder() as folder, staged_script(script, arguments, is_module, folder) as measured, LoadMeter() as load:
        measured.say = say
        found = _in_stages(measured, script, seconds, headroom, thorough)
        return replace(found, machine=load.end())


def _in_stages(script: MeasuredScript, name: str, seconds: float, headroom: bool, thorough: bool) -> Measurement:
    """Lead a script through the stages, and put together what is measured in them."""
    all_s, until_s = seconds * (2 if headroom else 1), time.monotonic() + MAX_DURATION_S
    script.say(f"waiting for the first steps of {name}; from then on it takes about {all_s:.0f} s")
    run = StagedRun(script)
    run.take(WARM_UP_STEPS)
    _look_closer(run)
    as_it_is = measure_as_it_is(run, name, f"measuring its steps for {seconds:g} s", seconds)
    notes = _unseen(run)
    if run.unit != StepUnit.OPTIMIZER:
        notes.append(f"No optimizer of torch ends a step of this script: a step is a {run.unit}.")
    if run.batches["elsewhere"]:
        notes.append("Batches are loaded in another thread: the wait for them is under other.")
    synchronized = run.measure("synchronized", seconds / 2) if run.circumstances.device == "cuda" else None
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


def measure_as_it_is(run: StagedRun, name: str, says: str, seconds: float) -> Stage:
    """Measure the script as it is, with this said first if it still runs.

    Raises:
        WorkshopError: no step was measured.
        ScriptError: it broke before.
    """
    if not run.ended:
        run.script.tell(says)
    if as_it_is := None if run.ended else run.measure("as it is", seconds):
        return as_it_is
    if run.interrupted:
        raise KeyboardInterrupt
    raise run.error or WorkshopError(f"{name} ended {too_early(run)}")


def _unseen(run: StagedRun) -> list[str]:
    """Say it if the script went on, and was not seen any more."""
    is_unseen = isinstance(run.error, UnseenError)
    return [f"Nothing more was seen of the script: {run.error}"] if is_unseen else []


def _of_ranks(first: Measurement, run: StagedRun) -> Measurement:
    """The measurement of the first rank, with those of all ranks in it."""
    time.sleep(LAST_WRITTEN_S)
    assert run.lead is not None
    steps = {run.lead: first.steps, **run.of_others("as it is")}
    synchronized = {run.lead: first.synchronized, **run.of_others("synchronized")}
    notes = (*first.notes, *[INTERRUPTED] * run.interrupted)
    observed = {rank: read_observations(run.script.folder, run.script.trainers[rank]) for rank in sorted(steps)}
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


def _kept_graphs(observations: Observations) -> list[str]:
    """Say it if the script keeps the graphs of its losses."""
    found = []
    for each in observations.kept_graphs[-1:]:
        frames = observations.user_frames_of(each.stack)
        at = f" (line {frames[-1].line})" if frames else ""
        where = f", in {each.place}," if each.place else ""
        found.append(
            f"The losses of {each.kept} of {each.of} watched backward passes{at} are kept with their graphs{where} and "
            "take memory: keep loss.item(), or loss.detach()."
        )
    return found


def _with_headroom(
    run: StagedRun, found: Measurement, reached: MeasuredSteps | None, why_not: str, seconds: float
) -> Measurement:
    """Add the headroom, or why there is none, and the trials of other numbers of workers if these may help."""
    time.sleep(LAST_WRITTEN_S)
    notes = (*found.notes, *[why_not] * bool(why_not))
    assert run.lead is not None
    observations = read_observations(run.script.folder, run.script.trainers[run.lead])
    if observations.lost:
        notes += (f"Part of what the script did could not be recorded: {observations.lost}.",)
    found = replace(found, headroom=reached, notes=notes, observations=observations)
    if not reached:
        return found
    tried, failures = _with_workers(run, found, seconds / 4)
    whole, failed = _whole_batches(run, found, seconds / 4)
    return replace(found, with_workers=tried, whole_batches=whole, notes=(*found.notes, *failures, *failed))


def _with_workers(run: StagedRun, found: Measurement, seconds: float) -> tuple[dict[int, MeasuredSteps], list[str]]:
    """Measure the same loop with other numbers of workers if that may help, and say why if a number cannot load."""
    tried, failures, loading = {}, [], Loading(found)
    own = loading.loader.settings if loading.loader else LoaderSettings()
    for workers in other_workers(loading):
        stage = SetStage(f"workers {workers}", own.with_other_workers(workers))
        if run.ended and not run.error:
            _start_again(run, "for other numbers of workers")
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
    return tried, [*failures, *[UNTRIED] * run.interrupted]


def _whole_batches(run: StagedRun, found: Measurement, seconds: float) -> tuple[MeasuredSteps | None, list[str]]:
    """Measure the same loop with batches that are taken at once, if they are put together from single samples."""
    loading = Loading(found)
    if run.error or run.interrupted or not loading.matters or not (loading.loader and loading.loader.singles):
        return None, []
    stage = SetStage("whole batches", replace(loading.loader.settings, workers=0, whole_batches=True))
    if run.ended:
        _start_again(run, "for whole batches")
    run.script.tell("trying it with whole batches")
    steps = run.measure_loading(stage, seconds, MAX_WARM_UP * seconds)
    return (steps.together, []) if steps else (None, [_to_no_result(run, "whole batches", seconds)])


def _to_no_result(run: StagedRun, what: str, seconds: float) -> str:
    """Say why a trial of the loading came to nothing."""
    if run.ended:
        why = _how(run.error) if run.error else "the script ended before"
    elif run.last and run.last.failure:
        why = f"nothing could be loaded: {run.last.failure}"
    else:
        why = (
            f"the training did not come to what was loaded within {MAX_WARM_UP * seconds:.3g} s; a larger --seconds "
            "gives it more time"
        )
    return f"Tried {what}, to no result: {why}."


def staged_script(script: str, arguments: list[str], is_module: bool, folder: Path) -> MeasuredScript:
    """Return a run of the script in the present folder, not started yet, or of torchrun with its ranks.

    Raises:
        WorkshopError: there is no such script, or it is a file of another kind.
        ScriptError: it cannot be parsed.
    """
    if script == "torchrun" and not Path(script).is_file():
        script, is_module = TORCHRUN, True
    if script.startswith("-"):
        raise WorkshopError(f"there is no option {script}; arguments of the script come after it")
    if not is_module:
        require_script(Path(script))
    command = ["-m", script] if is_module else [str(Path(script).absolute())]
    command += arguments
    require_syntax(script_in([sys.executable, *command]))
    return MeasuredScript(command, folder, work_folder=Path.cwd(), patience_s=PATIENCE_S)


def measure_headroom(
    run: StagedRun, as_it_is: Stage, seconds: float, wanted: bool = True
) -> tuple[MeasuredSteps | None, str]:
    """Measure the same loop with batches from memory; or say why that cannot be."""
    if run.interrupted:
        return None, INTERRUPTED
    if not run.batches["training"]:
        return None, "No headroom: the training takes no batches from a DataLoader."
    if not wanted:
        return None, ""
    few_steps = run.seen // 2
    if run.ended:
        _start_again(run, "for the headroom")
    run.script.tell("keeping a few batches, and measuring its steps with them from memory")
    run.keep(few_steps, seconds)
    run.batches["from_memory"] = 0
    run.go_to("replay")
    run.settle()
    replayed = run.measure("replay", seconds)
    if run.interrupted:
        return None, INTERRUPTED
    if run.error:
        return None, f"No headroom: with the same few batches from memory, {_how(run.error)}."
    if not replayed or not run.batches["from_memory"]:
        return None, "No headroom: the script asked for no further batch while they came from memory."
    return replayed.like(as_it_is).together, ""


def _start_again(run: StagedRun, what: str) -> None:
    """Run a script once more that has come to its end before all was measured."""
    run.script.tell(f"it has ended; starting it again, {what}")
    run.start()
    run.take(WARM_UP_STEPS)


def _look_closer(run: StagedRun) -> None:
    """Watch a few of the first steps in more detail than is possible while steps are timed."""
    run.measure("closer", 0.0, CLOSER_STEPS)
    processes = 1 + len(run.others)
    for trial in _worth_a_trial(run.circumstances, usable_cores() // processes):
        run.measure(f"trial {trial}", 0.0, 1)


def _worth_a_trial(circumstances: Circumstances, cores: int) -> list[str]:
    """The settings that slow computing down and can be changed on a copy of the model."""
    if circumstances.compiled:
        return []
    slows = {
        "one-thread": circumstances.device == "cpu" and circumstances.threads == 1 < cores and not circumstances.forked,
        "anomaly-mode": circumstances.anomaly_mode,
        "float64": circumstances.double,
    }
    return [name for name, holds in slows.items() if holds]


def too_early(run: StagedRun) -> str:
    """Return when a script ended that had no step measured, and what was seen of it."""
    if run.seen:
        return f"after {run.seen} steps; let it train for more, {MIN_STEPS} steps at least"
    return f"before a training step was seen: {run.script.seen()}"


def _how(error: ScriptError) -> str:
    return f"nothing more was seen of the script: {error}" if isinstance(error, UnseenError) else "the script crashed"
