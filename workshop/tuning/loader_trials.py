"""Trials of settings in a run of the script, in which other DataLoaders take the place of its own."""

import time
from dataclasses import dataclass, field, replace

from workshop.errors import WorkshopError
from workshop.probe.messages import LoaderSettings, LoadWith
from workshop.runs.measured_steps import MeasuredSteps, Stage
from workshop.runs.staged_run import WARM_UP_STEPS, StagedRun
from workshop.tuning.epoch_steps import blocks_ms, within_epochs
from workshop.tuning.script_memory import ScriptMemory
from workshop.tuning.setting_search import SettingSearch
from workshop.tuning.setting_words import in_words

CYCLES, LONGEST = 4, 3.0
"""Every trial sees each worker load this many batches, unless that takes this many times as long as a trial."""

FEWEST, ATTEMPTS = 3, 2
"""The steps of a trial, at least, and how often one is begun if the script ends meanwhile."""


@dataclass
class LoaderTrials:
    """Tries what a search asks for; a script that ends meanwhile is run again."""

    run: StagedRun
    name: str
    """The script's."""
    search: SettingSearch
    memory: ScriptMemory
    loader: int
    """The number of the DataLoader whose settings are tried; -1 for all."""
    trial_s: float
    """How long a trial takes, about."""
    usual_ms: float
    """The milliseconds of a step of the script as it is."""
    steps: dict[LoaderSettings, MeasuredSteps] = field(default_factory=dict)
    """Those of the last trial of each settings, without regard to what makes no difference in a trial."""
    begun: int = 0
    """How many trials were begun."""

    def go_through(self, until_s: float) -> bool:
        """Try one after the other; return whether the time, as of `time.monotonic`, was over before the search was.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; what is known by then is in the search.
            WorkshopError: the script could not be run again; what is known by then is in the search.
        """
        for settings in self.search.trials():
            if time.monotonic() > until_s:
                return True
            self._try(settings)
        return False

    def steps_with(self, settings: LoaderSettings) -> MeasuredSteps:
        """Return the steps of the last trial of settings."""
        return self.steps[self.search.of(settings).settings]

    def _try(self, settings: LoaderSettings) -> None:
        """Try settings, in another run of the script if the present one ends meanwhile."""
        known = self.search.of(settings)
        self.run.script.tell(f"trying {in_words(settings, self.search.present)}; {self._so_far()}")
        fewest = max(self._cycles(settings) * settings.workers, FEWEST)
        for attempt in range(ATTEMPTS):
            self.begun += 1
            to = LoadWith(settings, self.loader, self.begun)
            stage = self.run.measure_loading(to, self.trial_s, 1.5 * self.trial_s, fewest, patient=True)
            if self.run.interrupted:
                raise KeyboardInterrupt
            goes_on = not self.run.ended
            if goes_on:
                break
            if self.run.error:
                self.search.fail(settings, f"the script ended: {self.run.error}")
            taken = stage.together.count if stage else 0
            if attempt and taken < max(2 * settings.workers, FEWEST):  # what was loaded at first comes all at once
                self.search.fail(settings, "the script ends before this can be measured")
            self._start_again()
            if taken >= fewest or known.why_not:
                break
        if known.why_not:
            return
        if stage:
            self._note(settings, stage, goes_on)
        else:
            failure = self.run.last.failure if self.run.last else ""
            self.search.fail(settings, failure or "it loaded nothing")

    def _cycles(self, settings: LoaderSettings) -> int:
        """How many batches each worker loads in a trial, at least: several, unless that takes too long."""
        known = [each.ms for each in self.search.tried.values() if each.known]
        cycle_s = min(known, default=self.usual_ms) * settings.workers / 1e3
        return CYCLES if cycle_s * CYCLES < LONGEST * self.trial_s else 2

    def _note(self, settings: LoaderSettings, stage: Stage, goes_on: bool) -> None:
        """Note what a trial has shown; the memory only while the processes of the trial are there."""
        known, steps = self.search.of(settings), stage.together
        self.search.add(settings, blocks_ms(within_epochs(stage), settings.workers))
        self.steps[known.settings] = steps
        known.samples = steps.samples / steps.count
        known.first_batch_s = known.first_batch_s or self.run.started_s
        known.busy_cores = self.run.busy_cores
        known.shared_bytes = self.memory.room.shared(settings)
        if known.memory_bytes is None and goes_on:
            self.memory.look(known)

    def _start_again(self) -> None:
        self.run.start()
        self.run.take(WARM_UP_STEPS)
        self.memory.begin_run()
        if self.run.interrupted:
            raise KeyboardInterrupt
        if self.run.ended:
            raise WorkshopError(f"{self.name} could not be run again: {self.run.error or 'it ended at once'}")

    def _so_far(self) -> str:
        known = [each for each in self.search.tried.values() if each.known]
        if not known:
            return "nothing is known yet"
        best, present = min(known, key=lambda each: each.ms), self.search.present
        settings = replace(best.settings, persistent=present.persistent and best.settings.workers > 0)
        return f"best so far: {best.rate:.1f} samples/s with {in_words(settings, present)}"
