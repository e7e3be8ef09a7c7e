"""Leads a script through the search: one run, in which other DataLoaders take the place of the script's own."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workshop.diagnosis.diagnosis import diagnose
from workshop.diagnosis.findings import MIN_GAIN
from workshop.diagnosis.loading import Loading, cores
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations, observations_of
from workshop.errors import WorkshopError
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.phases import Phase
from workshop.runs.measured_steps import MeasuredSteps, Stage
from workshop.runs.other_load import LoadMeter
from workshop.runs.script import Say
from workshop.runs.staged_run import WARM_UP_STEPS, StagedRun, led, measure_as_it_is, measure_headroom
from workshop.terminal import some_of
from workshop.tuning.loader_edit import NoEditError, edit
from workshop.tuning.loader_origin import LoaderOrigin, origin_of, waited_for
from workshop.tuning.loader_trials import LoaderTrials, blocks_ms, ceiling_ms, within_epochs
from workshop.tuning.script_memory import ScriptMemory
from workshop.tuning.setting_search import MAX_WORKERS, SettingSearch
from workshop.tuning.tuning_result import AdviceKind, AdviceReason, Tuning


def tune(
    script: str,
    arguments: list[str],
    seconds: float,
    say: Say = print,
    is_module: bool = False,
    memory_bytes: float | None = None,
) -> Tuning:
    """Run a script, try other settings of its DataLoader meanwhile, and end it.

    It is started as by `led`; several ranks are all tuned at once. From the first step on, the search takes about
    `seconds`. All processes may use `memory_bytes` together; by default what the machine has.

    Raises:
        WorkshopError: there is no such script, or no training step was seen.
        ScriptError: it broke before anything was measured.
    """
    name, trial_s = Path(script).name, max(0.6, seconds / 100)
    then = f"the search takes about {seconds:.0f} s"
    with led(script, arguments, is_module, say, then) as (run, load):
        run.take(WARM_UP_STEPS)
        until_s = time.monotonic() + seconds
        as_it_is = measure_as_it_is(run, name, f"measuring {name} as it is", 3 * trial_s)
        return TunedRun(run, name, as_it_is, trial_s, until_s, memory_bytes, load).tuning()


@dataclass
class TunedRun:
    """A script that is tuned while it runs."""

    run: StagedRun
    name: str
    """The script's."""
    as_it_is: Stage
    """What was measured of it."""
    trial_s: float
    """How long a trial takes, about."""
    until_s: float
    """When the time for the search is over, as of `time.monotonic`."""
    memory_bytes: float | None
    """What all processes of the script may use together; None for what the machine has."""
    load: LoadMeter
    """What other programs use: if that is much, figures are rough."""
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = self.as_it_is.together
        self.known = Tuning(AdviceReason(AdviceKind.STOPPED), steps=self.steps)

    def tuning(self) -> Tuning:
        """Find the DataLoader, measure the script with batches from memory, and search."""
        try:
            return self._tuned()
        except KeyboardInterrupt:
            return self._result(self.known.reason, interrupted=True)

    def _tuned(self) -> Tuning:
        if not self.run.batches["training"]:
            return self._result(AdviceReason(AdviceKind.NO_BATCHES))
        found = self._observed()
        loaders = [origin_of(found, loader) for loader in waited_for(found, self.run.waits_s)]
        if not loaders:
            return self._result(AdviceReason(AdviceKind.NO_LOADER))
        origin, *others = loaders
        present = origin.seen.settings
        self.known = replace(
            self.known,
            present=present,
            where=origin.where,
            epoch_steps=_epoch_steps(self.steps, origin.seen.batches),
            slowest=Loading(Measurement(self.steps, observations=found)).slowest_line,
        )
        if others:
            most = f"that of {origin.where}, which is waited for most, is tuned"
            self.notes.append(f"Several DataLoaders: {most}; not {some_of(other.where for other in others)}.")
        repeats = found.repeats(origin.seen)
        if repeats and present.workers > 1:
            return self._result(AdviceReason(AdviceKind.REPEATED))
        if repeats:
            self.notes.append(
                f"The dataset of {origin.where} is iterable and does not ask for its worker, so each worker would go "
                "through all of it: no more than one worker is tried."
            )
        headroom, why_not = measure_headroom(self.run, self.as_it_is, 1.5 * self.trial_s)
        if self.run.interrupted:
            raise KeyboardInterrupt
        if not headroom:
            return self._result(AdviceReason(AdviceKind.NOTHING_KEPT, cause=why_not))
        self.known = replace(self.known, headroom=headroom)
        speedup = max(1.0, self.steps.ms_a_step / headroom.ms_a_step)
        if speedup < MIN_GAIN and self.steps.share(Phase.DATA_WAIT) < 0.1:  # who waits for longer is tuned anyway
            found_none = self._result(AdviceReason(AdviceKind.NO_HEADROOM, speedup=speedup))
            return self._with_limits(found_none, origin, self.steps)
        max_workers = 1 if repeats else min(MAX_WORKERS, origin.seen.batches or MAX_WORKERS)
        search = self._search(origin, found, ceiling_ms(headroom, self.as_it_is), max_workers)
        loader = origin.seen.loader if others else -1
        trials = LoaderTrials(self.run, self.name, *search, loader, self.trial_s, self.steps.ms_a_step)
        return self._searched(trials, origin)

    def _observed(self) -> Observations:
        self.run.wait_until_written()
        return observations_of(self.run)

    # The search

    def _search(
        self, origin: LoaderOrigin, found: Observations, ceiling_ms: float, max_workers: int
    ) -> tuple[SettingSearch, ScriptMemory]:
        """The search, with what is known by now, and what looks at the memory meanwhile."""
        present, steps, has = origin.seen.settings, self.steps, self.run.circumstances
        memory = ScriptMemory(self.run.script, steps, present.start_method, self.memory_bytes)
        search = SettingSearch(
            present,
            ceiling_ms=ceiling_ms,
            epoch_steps=self.known.epoch_steps,
            keeps=not (found.changes(origin.seen) or found.is_remade(origin.seen)),
            batches=max(1, steps.batches) / steps.count,
            pins=bool(steps.pageable_bytes),
            threads=0 if has.forked or has.device != "cpu" else has.threads,
            max_workers=max_workers,
            cores=cores(),
            why_not=memory.why_not,
            slows_by=lambda: self.load.so_far().slows_by,
        )
        if not present.workers or memory.why_not(present):  # no start of workers is to be seen, or no room beside them
            known = search.of(present)
            known.blocks_ms += blocks_ms(within_epochs(self.as_it_is), 0)
            known.samples = steps.samples / steps.count
            known.memory_bytes = round(memory.room.used_bytes)
        return search, memory

    def _searched(self, trials: LoaderTrials, origin: LoaderOrigin) -> Tuning:
        interrupted = False
        try:
            if trials.go_through(self.until_s):
                self.notes.append("The time ran out before the search was complete; --budget allows more.")
        except KeyboardInterrupt:
            interrupted = True
            self.notes.append("Stopped by Ctrl-C: this is what was known by then.")
        except WorkshopError as error:
            self.notes.append(f"The search is not complete: {error}.")
        self.load.end()  # so that it is the same for whatever is decided
        reason, tried = trials.search.reason(interrupted), trials.search.outcomes()
        found = self.known = self._result(reason, tried=tried, interrupted=interrupted)
        if found.taken:
            found = self.known = _with_edit(found, origin, found.taken)
        if self.run.interrupted:
            return found
        return self._with_limits(found, origin, trials.steps_with(found.taken) if found.taken else self.steps)

    # The result

    def _result(self, reason: AdviceReason, **more: Any) -> Tuning:
        ranks, machine, crash = 1 + len(self.run.others), self.load.end(), self.run.crash
        known: dict[str, Any] = {"notes": tuple(self.notes), "ranks": ranks, "machine": machine, "crash": crash}
        return replace(self.known, reason=reason, **known, **more)

    def _with_limits(self, found: Tuning, origin: LoaderOrigin, steps: MeasuredSteps) -> Tuning:
        """Add what `measure` would say of the steps with the settings to take, or the present ones."""
        seen = replace(origin.seen, settings=found.taken or origin.seen.settings, t=steps.began_s)
        observed = self._observed()
        before = [earlier for earlier in observed.iterated if earlier.t <= steps.began_s]
        observed = replace(observed, iterated=[*before, seen])
        measured = Measurement(
            steps, headroom=found.headroom, circumstances=self.run.circumstances, observations=observed
        )
        limits = tuple(diagnose(measured).findings)
        return replace(found, limits=limits, waits_share=steps.share(Phase.DATA_WAIT))


def _epoch_steps(steps: MeasuredSteps, batches: int | None) -> int | None:
    """Return the number of steps in an epoch of so many batches; a step may take several."""
    return round(batches * steps.count / steps.batches) if batches and steps.batches else None


def _with_edit(found: Tuning, origin: LoaderOrigin, settings: LoaderSettings) -> Tuning:
    present = origin.seen.settings
    if origin.library:
        wanted = ", ".join(f"{origin.prefix}{name}={value}" for name, value in settings.arguments(present).items())
        calls = "".join(f"; and before the training, {call}" for call in settings.calls(present))
        why = f"{origin.library} makes this DataLoader: for {origin.where}, set {wanted}{calls}."
        return replace(found, why_no_edit=why)
    try:
        return replace(found, edit=edit(Path(origin.path), origin.line, settings, present))
    except NoEditError as error:
        return replace(found, why_no_edit=f"{error}.")
