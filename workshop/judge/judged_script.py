"""A script that is judged: it trains epoch by epoch, on command, and keeps evidence of its work."""

import os
import random
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workshop.probe.connection import ClosedError
from workshop.probe.messages import (
    DrawItems,
    DrawnItems,
    EpochBegan,
    EpochEnded,
    EpochReport,
    Proceed,
    Recomputation,
    Recompute,
    Repeat,
    Repetition,
)
from workshop.probe.phases import Phase
from workshop.probe.settings import MAX_EPOCH_STEPS, JudgedRun
from workshop.runs.script import Script
from workshop.runs.script_error import ScriptError, activities

MAX_REPEATED = 60
"""Recorded transforms, at most, that are applied again at a time."""


@dataclass(frozen=True)
class TimedEpoch:
    """One epoch of a script, or part of one."""

    seconds: float
    """By the judge's clock: from the last optimizer step before it, or from the start of the run, to its last step. The
    time that recording a step took is left out."""
    report: EpochReport
    first_step: int = 0
    """The number of its first step in the run of the script."""

    def at_length(self, steps: int) -> "TimedEpoch":
        """Return what an epoch of so many steps takes if each takes as long as in this one."""
        times = steps / max(self.report.steps, 1)  # a script may stop stepping, and is then refused
        phases = {phase: seconds * times for phase, seconds in self.report.phases.items()}
        return replace(self, seconds=self.seconds * times, report=replace(self.report, phases=phases))

    @property
    def sample(self) -> Path | None:
        """The file of the step that was recorded, if one was asked for."""
        return Path(self.report.sample) if self.report.sample else None

    def seconds_in(self, phases: Sequence[Phase] | None) -> float:
        """Return the seconds in some phases, by the script's clock; None for the whole, by the judge's."""
        return sum(self.report.phases[phase] for phase in phases) if phases else self.seconds


class JudgedScript(Script):
    """A script that stops after each epoch until it is told to go on.

    A script that ends by itself is restarted as often as needed. The first epoch after a restart only warms it up and
    is not returned, unless the script trains for one epoch only.

    Args:
        *command: the command and the folder of the run, as for a `Script`.
        photos: the folder with the data files, relative to the folder that the script runs in; None if reads need not
            be noted.
        epoch_steps: the number of optimizer steps in an epoch; None for the length of the script's first DataLoader.
        random_states: whether to note the state of the CPU's random generator at each step, and one complex item.
        max_epoch_s: the longest time of an epoch whose number of steps is not given; None for the usual one.
        **options: the other arguments of a `Script`.

    Attributes:
        whole_steps: the steps of an epoch of its DataLoader, which one of the judge's may be a part of; None if that is
            not known.
        step_s: the seconds of a step in the last epoch.
        alike: the steps of an epoch that may be recorded; empty for all of them.
    """

    def __init__(
        self,
        *command: Any,
        photos: Path | None = None,
        epoch_steps: int | None = None,
        random_states: bool = False,
        max_epoch_s: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*command, **options)
        self.photos = f"{(self.work_folder / photos).resolve()}{os.sep}" if photos else None
        self.epoch_steps = epoch_steps
        self.random_states, self.max_epoch_s = random_states, max_epoch_s
        self.epochs_in_run = self.steps_in_run = 0
        self.whole_steps: int | None = None
        self.step_s = 0.0
        self.alike: Sequence[int] = ()

    @property
    def unit(self) -> str:
        """What is reported as an epoch: not every script has a DataLoader that ends."""
        return f"{self.epoch_steps} steps" if self.epoch_steps else f"an epoch, or of {MAX_EPOCH_STEPS} steps,"

    def begin(self, sample_step: int | None = None, steps: int | None = None) -> None:
        """Start the script and its first epoch, of so many steps, and record the step `sample_step`, counted from 0."""
        steps = steps or self.epoch_steps
        told = self.photos, steps, sample_step, self.random_states, self.max_epoch_s, self.alike
        self.start(JudgedRun(*told))
        self.epochs_in_run = self.steps_in_run = 0

    def epoch(self, proceed: Proceed | None = None, pause: bool = True) -> TimedEpoch:
        """Let the script train for one epoch, then stop it and every process that it started (`pause`).

        Raises:
            ScriptError: it ended before an epoch was over, hung, or ran away.
        """
        proceed = proceed or Proceed()
        if self.process is None:
            self.begin(proceed.sample_step, proceed.steps)
        try:
            found = self._next_epoch(proceed)
        except ClosedError:
            if not self.epochs_in_run or self.exit_code() != 0:
                raise self.ended(self._so_far()) from None
            found = self._epoch_of_another_run(proceed)
        self.epoch_steps = self.epoch_steps or found.report.steps
        self.step_s = found.seconds / max(found.report.steps, 1)
        if pause:
            self.pause()
        return found

    def recompute(self, *samples: Path) -> Recomputation:
        """Have this script's loop take a step between two epochs, given the file that each rank recorded of it.

        A script that ends instead, as it comes to the end of its training, is started again, once.
        """
        for _ in range(2):
            try:
                [result] = self._ask(Recompute(list(map(str, samples))), answers=1)
            except ScriptError as error:
                fault = error
            else:
                self.steps_in_run += result.attempts
                return result
        return Recomputation(error=f"{self.name} broke: {fault}")

    def recorded_transforms(self) -> list[Path]:
        """Return the files of the random transforms recorded so far."""
        return sorted(self.folder.glob("transform-*.pickle"))

    def repeat(self, files: Iterable[Path]) -> dict[Path, Repetition]:
        """Have this script apply `recorded_transforms` again between two epochs; of many, a random sample.

        Raises:
            ScriptError: the script has ended.
        """
        names = sorted(map(str, files))
        names = random.sample(names, min(len(names), MAX_REPEATED))
        return dict(zip(map(Path, names), self._ask(Repeat(names), answers=len(names)), strict=True))

    def draw_items(self) -> DrawnItems:
        """Have this script draw items from its dataset between two epochs; they are events in its folder.

        Raises:
            ScriptError: the script has ended.
        """
        return self._ask(DrawItems(), answers=1)[0]

    def _ask(self, message: Any, answers: int) -> list[Any]:
        if self.process is None:
            self.epoch()
        self.signal(signal.SIGCONT)
        try:
            self.send(message)
            received = [self.receive() for _ in range(answers)]
        except ClosedError:
            raise self.ended(self._so_far()) from None
        self.pause()
        return received

    def pause(self) -> None:
        """Stop the script and every process that it started until its next epoch."""
        self.signal(signal.SIGSTOP)

    def _next_epoch(self, proceed: Proceed) -> TimedEpoch:
        if self.epochs_in_run:
            self.send(replace(proceed, alike=self.alike))
            begin = time.perf_counter()  # before any of its processes goes on
            self.signal(signal.SIGCONT)
        while not isinstance(message := self.receive(), EpochEnded):
            assert isinstance(message, EpochBegan)
            begin = time.perf_counter()
        seconds = time.perf_counter() - begin
        self.pause_workers()  # nothing is loaded while no clock runs
        report = self.receive()
        if report.cut_short:
            self.signal(signal.SIGCONT)  # it is ending
        if report.cut_short and (self.epochs_in_run or self.exit_code() != 0):
            raise ClosedError("the script has ended")  # after the last full epoch: the rest is not an epoch
        self.whole_steps = self.whole_steps or report.whole_steps
        first_step, self.steps_in_run = self.steps_in_run, self.steps_in_run + report.steps
        self.epochs_in_run += 1
        return TimedEpoch(seconds - report.recording_s, report, first_step)

    def _epoch_of_another_run(self, proceed: Proceed) -> TimedEpoch:
        """Restart a script that has ended by itself, and train for an epoch, from the beginning of one."""
        only_epoch, first = self.epochs_in_run == 1, None
        self.begin(proceed.sample_step if only_epoch else None, proceed.steps)
        try:
            first = self._next_epoch(proceed)
            return first if only_epoch else self._next_epoch(proceed)
        except ClosedError:
            if first and self.exit_code() == 0:  # it trains for one epoch only, of which earlier ones were parts
                return first
            raise self.ended(self._so_far()) from None

    def on_silence(self) -> None:
        """Say what was seen; training in a different process is not judged.

        Raises:
            UnseenError: the script trains in a process that it started.
        """
        assert self.process
        seen = {each.pid: each for each in activities(self.folder)}
        here = seen.pop(self.process.pid, None)
        if any(each.optimizer_steps for each in seen.values()) and not (here and here.optimizer_steps):
            raise self.unseen(f"it trains in processes that it starts, and only its first one is judged: {self.seen()}")
        super().on_silence()

    def out_of_patience(self) -> ScriptError:
        """Return the error for a script that was silent for too long; a script that takes steps is only slow."""
        if any(each.optimizer_steps for each in activities(self.folder)):
            return self.unseen(
                f"its epochs take more than {self.patience_s:.0f} s here; close other programs, or ask for fewer "
                f"--steps of `workshop compare`: {self.seen()}"
            )
        return super().out_of_patience()

    def _so_far(self) -> str:
        epochs = self.epochs_in_run
        return f"after {epochs} epoch{'s' * (epochs > 1)}" if epochs else "before the end of its first epoch"
