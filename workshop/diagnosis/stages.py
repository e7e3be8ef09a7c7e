"""Measures any training script in stages: as it is, with batches from memory, with other workers, with changes."""

import math
import time
from dataclasses import replace

from workshop.diagnosis.findings import MIN_SHARE_OF_STEP
from workshop.diagnosis.headrooms import Headrooms
from workshop.diagnosis.loading import Loading, other_workers
from workshop.diagnosis.measurement import Measurement, Note, NoteKind
from workshop.diagnosis.samples import Observations, observations_of
from workshop.diagnosis.timeline import Timeline
from workshop.diagnosis.traced_lines import traced_lines
from workshop.diagnosis.watched_lines import lines_to_watch, loading_to_watch
from workshop.probe.cause import FirstLook, Half, Moment, TriedCause
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.messages import (
    AsItIs,
    LoadWith,
    LookCloser,
    MeasureOperators,
    SetStage,
    StepUnit,
    Synchronized,
    TryCauses,
    WarmUp,
    WatchLines,
    WatchLoading,
)
from workshop.probe.own_limits import usable_cores
from workshop.probe.phases import Phase
from workshop.probe.trials import causes_at, tried_causes
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
from workshop.traces import TraceError

MAX_DURATION_S = 50.0
"""Seconds, at most, after which something is still tried that takes longer than a few."""

CLOSER_STEPS = 2
"""Steps in which backward passes are attributed to lines; these also warm the script up."""

NOT_MEASURED = "Not measured: for how long operators compute, and how fast ({})."

WATCHED_S = 4.0
"""Seconds, at most, in which it is watched what is computed in vain."""


def measure(
    script: str,
    arguments: list[str],
    seconds: float,
    say: Say = print,
    is_module: bool = False,
    headroom: bool = True,
    thorough: bool = False,
    traced: bool = False,
) -> Measurement:
    """Run a script until its steps have been measured, then end it.

    It is started as by `led`. Its steps are measured for `seconds` and, if `headroom` is asked for, with batches from
    memory for half as long. If it is `thorough`, all ways to compute are tried, however long that takes. On a GPU, some
    steps are traced with their stacks; if it is `traced`, on a CPU, too.

    Raises:
        WorkshopError: there is no such script, or no training step was seen.
        ScriptError: it broke before anything was measured.
    """
    all_s = seconds * (2 if headroom else 1)
    with led(script, arguments, is_module, say, f"it takes about {all_s:.0f} s") as (run, load):
        until_s = math.inf if thorough else time.monotonic() + MAX_DURATION_S
        found = MeasuredStages(run, script, seconds, traced).measurement(headroom, until_s)
        return replace(found, machine=load.end())


class MeasuredStages:
    """Leads a script through the stages, and notes what their figures do not show.

    Args:
        run: the script.
        name: what it is called.
        seconds: how long its steps are measured as they are.
        traced: whether some are traced with their stacks on a CPU, too.
    """

    def __init__(self, run: StagedRun, name: str, seconds: float, traced: bool = False) -> None:
        self._run, self._name, self._seconds, self._traced = run, name, seconds, traced
        self._notes: list[Note] = []

    def measurement(self, headroom: bool, until_s: float) -> Measurement:
        """Return all that is measured.

        Args:
            headroom: whether batches from memory are wanted.
            until_s: until when, by `time.monotonic`, something is tried that takes longer than a few seconds.
        """
        run = self._run
        self._look_closer()
        as_it_is = measure_as_it_is(run, self._name, f"measuring its steps for {self._seconds:g} s", self._seconds)
        self._note_if_unseen()
        if run.unit != StepUnit.OPTIMIZER:
            says = f"No optimizer of torch ends a step of this script: a step is a {run.unit}."
            self._note(NoteKind.OTHER_STEP, says)
        if run.batches["elsewhere"]:
            says = "Batches are loaded in another thread: the wait for them is under other."
            self._note(NoteKind.LOADED_ELSEWHERE, says)
        synchronized = run.measure(Synchronized(), self._seconds / 2) if run.circumstances.device == "cuda" else None
        found = Measurement(
            as_it_is.together,
            synchronized.together if synchronized else None,
            circumstances=run.circumstances,
        )
        if run.others:
            return self._of_ranks(found)
        reached, why_not = measure_headroom(run, as_it_is, self._seconds / 2, headroom)
        self._measure_operators(reached or found.steps)
        run.wait_until_written()
        if why_not:
            self._note(NoteKind.INTERRUPTED if run.interrupted else NoteKind.NO_HEADROOM, why_not)
        found = replace(found, headroom=reached, observations=observations_of(run))
        if found.observations.operators and (error := found.observations.operators.error):
            self._note(NoteKind.NO_RESULT, NOT_MEASURED.format(error))
        try:
            found = replace(found, traced=traced_lines(run.script.folder, found.observations, self._name))
        except (TraceError, OSError) as error:
            self._note(NoteKind.NO_RESULT, f"Not known: what each line takes on the GPU ({error}).")
        if found.observations.lost:
            says = f"Part of what the script did could not be recorded: {found.observations.lost}."
            self._note(NoteKind.NOT_SEEN, says)
        if reached:
            tried = self._with_workers(Loading(found))
            found = replace(found, with_workers=tried, whole_batches=self._whole_batches(Loading(found)))
        found = self._watch_hot_lines(found)
        found = self._with_trials(found, until_s - time.monotonic())
        self._notes += _noticed(found.observations)
        self._note_if_unseen()
        return replace(found, notes=tuple(dict.fromkeys(self._notes)), crash=run.crash)

    def _note(self, kind: NoteKind, says: str) -> None:
        self._notes.append(Note(kind, says))

    def _note_if_unseen(self) -> None:
        """Say it if the script went on, and was not seen any more."""
        if isinstance(self._run.error, UnseenError):
            self._note(NoteKind.NOT_SEEN, f"Nothing more was seen of the script: {self._run.error}")

    def _of_ranks(self, first: Measurement) -> Measurement:
        run = self._run
        run.wait_until_written()
        assert run.lead is not None
        steps = {run.lead: first.steps, **run.of_others(AsItIs())}
        synchronized = {run.lead: first.synchronized, **run.of_others(Synchronized())}
        if run.interrupted:
            self._note(NoteKind.INTERRUPTED, INTERRUPTED)
        ranks = {}
        for rank in sorted(steps):
            observed = observations_of(run, rank)
            ranks[rank] = replace(
                first,
                steps=steps[rank],
                synchronized=synchronized.get(rank),
                notes=(*self._notes, *_noticed(observed)),
                observations=observed,
            )
        return replace(ranks[min(ranks)], ranks=ranks, crash=run.crash)

    def _measure_operators(self, steps: MeasuredSteps) -> None:
        """Have it measured what operators compute in a few steps, which are as long as these; or note why not."""
        run, why_not = self._run, ""
        if run.unit != StepUnit.OPTIMIZER:
            why_not = "no optimizer of torch ends a step"
        elif run.circumstances.compiled or run.circumstances.distributed:
            why_not = "the model is compiled" if run.circumstances.compiled else "it trains with other processes"
        elif run.ended:
            why_not = "the script ended before"
        if why_not and not (run.error or run.interrupted):
            self._note(NoteKind.NO_RESULT, NOT_MEASURED.format(why_not))
        if why_not:
            return
        count = max(1, min(10, round(1e3 / steps.ms_a_step)))  # as many as fit into a second, but a few do
        run.script.tell("measuring for how long operators compute")
        run.go_to(MeasureOperators(count, stacks=self._traced or run.circumstances.device == "cuda"))
        run.take(count + 1)

    # Other ways to load

    def _with_workers(self, loading: Loading) -> dict[int, MeasuredSteps]:
        """Measure the same loop with other numbers of workers if that may help."""
        tried, run = dict[int, MeasuredSteps](), self._run
        own = loading.loader.settings if loading.loader else LoaderSettings()
        for workers in other_workers(loading):
            stage = LoadWith(own.with_other_workers(workers))
            if run.ended and not run.error:
                run.start_again("for other numbers of workers")
                run.go_to(stage)
                run.take_epoch(self._seconds)  # at its end, the script's own workers are ended
            if steps := self._loaded(stage, f"num_workers={workers}", "other numbers of workers"):
                tried[workers] = steps
            if run.error or run.interrupted:
                break
        return tried

    def _whole_batches(self, loading: Loading) -> MeasuredSteps | None:
        """Measure the same loop with batches that are taken at once, if they are put together from single samples."""
        run = self._run
        if run.error or run.interrupted or not loading.matters or not (loading.loader and loading.loader.singles):
            return None
        stage = LoadWith(replace(loading.loader.settings, workers=0, whole_batches=True))
        if run.ended:
            run.start_again("for whole batches")
        return self._loaded(stage, "whole batches", "whole batches", "its dataset takes one index at a time")

    def _loaded(
        self, stage: LoadWith, what: str, of_kind: str, failed: str = "nothing could be loaded"
    ) -> MeasuredSteps | None:
        """Measure steps whose batches are loaded otherwise; if that comes to nothing, note why."""
        run = self._run
        run.script.tell(f"trying it with {what}")
        steps = run.measure_loading(stage, self._seconds / 4, warm_up_s=self._seconds)
        if run.interrupted:
            says = f"Stopped by Ctrl-C, before {of_kind} were tried to the end: what they would gain is not known."
            self._note(NoteKind.INTERRUPTED, says)
        if steps and not (run.error or run.interrupted):
            return steps.together
        if run.error or not run.interrupted:
            self._note(NoteKind.NO_RESULT, f"Could not be tried: {what} ({self._why_not(failed)}).")
        return None

    def _why_not(self, failed: str) -> str:
        run = self._run
        if run.ended:
            return how_it_ended(run.error) if run.error else "the script ended before"
        if run.last and run.last.failure:
            return f"{failed}: {run.last.failure}"
        within = f"within {self._seconds:.3g} s"
        return f"the training did not come to what was loaded {within}; a larger --seconds gives it more time"

    def _watch_hot_lines(self, found: Measurement) -> Measurement:
        """Watch for a few steps what the hottest lines do, in a validation and in the workers, too; add what was seen.

        What workers do is watched in a process that loads batches in their place.
        """
        timeline, loading, run = Timeline(found), Loading(found), self._run
        lines = () if run.circumstances.compiled else lines_to_watch(timeline)
        loads = loading_to_watch(loading) if loading.matters and loading.loader and loading.workers else ()
        if run.ended or run.interrupted or not (lines or loads):
            return found
        run.script.tell(f"watching what {len(lines) + len(loads)} lines do")
        if lines and found.table.share(Phase.VALIDATION) > MIN_SHARE_OF_STEP:
            _wait_for_validation(run, WatchLines(lines), min(2.0 * _look_at(found).validations_s, 3.0 * self._seconds))
        elif lines:
            run.measure(WatchLines(lines), self._seconds / 4)
        if loads and loading.loader and not run.ended:
            run.measure(WatchLoading(loading.loader.settings.with_other_workers(0), lines=loads), self._seconds / 4)
        if not run.ended:
            run.go_to(WarmUp())  # before it, what was seen is written
        return replace(found, observations=observations_of(run))

    # Other ways to compute, on copies of the model and of the optimizer

    def _look_closer(self) -> None:
        """Watch a few steps after the first ones in more detail than is possible while steps are timed."""
        run = self._run
        tried_causes()  # imports torch, as the script does meanwhile
        run.take(WARM_UP_STEPS)
        run.measure(LookCloser(tuple(each.name for each in causes_at(Moment.CLOSER_LOOK))), 0.0, CLOSER_STEPS)
        look = FirstLook(run.circumstances, cores=usable_cores() // (1 + len(run.others)))
        for each in causes_at(Moment.BEFORE):
            if each.is_worth_it(look) and not look.circumstances.compiled:
                run.measure(TryCauses((each.name,)), 0.0, 1)

    def _with_trials(self, found: Measurement, left_s: float) -> Measurement:
        """Try other ways to compute, and add what came of it.

        Trials that would take longer together than `left_s` are left out, but not those of a few seconds.
        """
        run = self._run
        if run.unit != StepUnit.OPTIMIZER or run.circumstances.distributed:
            return found
        look, begun = _look_at(found), list[str]()
        causes = self._worth_it(found, look, max(left_s - WATCHED_S, 5.0))
        learns = found.table.share(Phase.BACKWARD, Phase.OPTIMIZER) > MIN_SHARE_OF_STEP
        watched = causes_at(Moment.WATCHING, run.circumstances.compiled) if learns else ()
        if not run.ended:
            run.script.tell("watching who uses gradients")
            run.go_to(TryCauses(tuple(each.name for each in watched)))  # with none, too: what lasts is tried now
            run.take(12 if watched else 0, WATCHED_S)
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
        self._notes += _untold(run, causes, begun, observations)
        return replace(found, observations=observations)

    def _worth_it(self, found: Measurement, look: FirstLook, left_s: float) -> list[TriedCause]:
        """Return what may bring something, what is soon done first; note what would take too long."""

        def seconds(cause: TriedCause) -> float:
            return cause.seconds(found.table.ms_in(*cause.phases) / 1e3, look)

        taken, untried = list[TriedCause](), list[str]()
        for cause in sorted(causes_at(Moment.AFTER, look.circumstances.compiled), key=seconds):
            if found.table.share(*cause.phases) < MIN_SHARE_OF_STEP or not cause.is_worth_it(look):
                continue
            if seconds(cause) <= left_s:
                taken.append(cause)
                left_s -= seconds(cause)
            else:
                untried.append(f"{cause.name} (about {seconds(cause):.0f} s)")
        if untried:
            says = f"Not tried for lack of time: {', '.join(untried)}; --thorough tries all."
            self._note(NoteKind.NOT_TRIED, says)
        return taken


def _noticed(observations: Observations) -> list[Note]:
    known = tried_causes() if observations.noticed else {}
    found = observations.noticed.values()
    return [
        Note(NoteKind.NOTICED, known[each.name].words.format(about=each.about, setting=each.setting)) for each in found
    ]


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
    no_result = Note(NoteKind.NO_RESULT, f"Could not be tried: {', '.join(without)} ({why}).")
    not_begun = Note(NoteKind.NOT_TRIED, f"Not tried: {', '.join(left)} ({why}).")
    nothing = Note(NoteKind.NOT_TRIED, f"Nothing to try for {', '.join(moot)} in this script.")
    return [*[not_begun] * bool(left), *[no_result] * bool(without), *[nothing] * bool(moot)]


def _wait_for_validation(run: StagedRun, stage: SetStage, seconds: float) -> None:
    """Go to a stage, and wait for the end of a step in which a batch was validated, or for so many seconds."""
    run.go_to(stage)
    before, give_up = run.batches["validation"], time.monotonic() + seconds
    while run.batches["validation"] == before and time.monotonic() < give_up and run.report():
        pass


def _look_at(found: Measurement) -> FirstLook:
    steps, observations = found.steps, found.observations
    validations = [each for each in observations.iterated if not each.training]
    launches = Headrooms(found).known.get(Half.LAUNCHES)
    return FirstLook(
        found.circumstances,
        settings=observations.settings,
        operations=max((each.operations for each in observations.backward_passes), default=0),
        validations_s=steps.wall_s / max(sum(steps.began_s <= each.t <= steps.ended_s for each in validations), 1),
        launch_headroom=launches.gain if launches else math.inf,
    )
