"""Trials of settings in a run of the script, in which other DataLoaders take the place of its own.

What a script does between two epochs, such as a validation, is no matter of loading: its steps are those within epochs.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from workshop.errors import WorkshopError
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.messages import LoadWith, StepReport
from workshop.probe.phases import Phase
from workshop.runs.measured_steps import MeasuredSteps, Stage
from workshop.runs.staged_run import WARM_UP_STEPS, StagedRun
from workshop.tuning.script_memory import ScriptMemory
from workshop.tuning.setting_search import SettingSearch

FEWEST = 3
"""Steps, at least: of a trial, and within epochs if those that begin one are to count as these do."""


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
    baseline_ms: float
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
        self.run.script.tell(f"trying {settings.in_words(self.search.present)}; {self._so_far()}")
        fewest = max(self._cycles(settings) * settings.workers, FEWEST)
        for attempt in range(2):  # the script may end meanwhile
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
        """How many batches each worker loads in a trial, at least: 4, or 2 if that takes 3 times as long as usual."""
        least_ms = min((tried.ms for tried in self.search.measured), default=self.baseline_ms)
        return 4 if 4 * settings.workers * least_ms / 1e3 < 3 * self.trial_s else 2

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
        best, present = min(self.search.measured, key=lambda tried: tried.ms, default=None), self.search.present
        if best is None:
            return "nothing is known yet"
        settings = replace(best.settings, persistent=present.persistent and best.settings.workers > 0)
        return f"best so far: {best.rate:.1f} samples/s with {settings.in_words(present)}"


def within_epochs(stage: Stage) -> list[float]:
    """Return the milliseconds of each step of a stage.

    A step that begins an epoch counts with its own wait for data, but with what the others take apart from that: a
    validation may be in it. Where epochs are so short that most steps are reported together with one that begins one,
    all are as they are.
    """
    within = [report for report in stage.reports if not report.epochs_begun]
    count = sum(report.steps for report in within)
    if count < FEWEST or 2 * count < sum(report.steps for report in stage.reports):
        return [duration_us / 1e3 for report in stage.reports for duration_us in report.durations_us]
    computing_ms = 1e3 * _computing_s(within)
    found: list[float] = []
    for report in stage.reports:
        wait_ms = 1e3 * report.phases[Phase.DATA_WAIT] / report.steps
        begins = [computing_ms + wait_ms] * report.steps
        found += begins if report.epochs_begun else [duration_us / 1e3 for duration_us in report.durations_us]
    return found


def blocks_ms(steps_ms: Sequence[float], workers: int, most: int = 12) -> list[float]:
    """Return the means of some steps in a row, `most` at most.

    Workers that keep the training waiting hand out their batches one after the other, and then nothing for a while: a
    block is as many steps as there are workers, or some times that many.
    """
    cycle = max(1, workers)
    size = cycle * max(1, -(-len(steps_ms) // (cycle * most)))
    if len(steps_ms) < 2 * size:
        size = max(1, len(steps_ms) // 2)
    count = len(steps_ms) // size
    return [float(np.mean(steps_ms[at * size : (at + 1) * size])) for at in range(count)]


def ceiling_ms(headroom: MeasuredSteps, as_it_is: Stage) -> float:
    """Return the mean milliseconds of a step within an epoch with batches from memory.

    The steps that begin epochs are the last ones of the headroom, as `Stage.like` puts them. If the script as it is
    takes less, apart from its wait for data, the machine was busier meanwhile, and that is the ceiling.
    """
    begun = sum(report.steps for report in as_it_is.reports if report.epochs_begun)
    durations_s = headroom.durations_s[: -begun or None] or headroom.durations_s
    within = [report for report in as_it_is.reports if not report.epochs_begun] or as_it_is.reports
    return 1e3 * min(float(np.mean(durations_s)), _computing_s(within))


def _computing_s(reports: Sequence[StepReport]) -> float:
    computing_s = sum(report.seconds - report.phases[Phase.DATA_WAIT] for report in reports)
    return computing_s / sum(report.steps for report in reports)
