"""What was tried on copies of the model and of the optimizer, and what each change would bring to a step."""

from dataclasses import asdict, dataclass, replace
from enum import Enum, auto
from typing import Any

import numpy as np

from workshop import noise
from workshop.diagnosis.findings import MIN_GAIN, gain_of
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.user_lines import Path
from workshop.probe.cause import Extent, Results, TriedCause
from workshop.probe.observations import Trial
from workshop.probe.trials import tried_causes

ROUNDING = 0.05
"""The largest difference of results that may be rounding, relative to the largest value."""

SAME_RESULTS = "The results are the same."


class NewResults(Enum):
    """What becomes of the numbers that a training computes."""

    SAME = auto()
    OTHER_MATH = auto()
    """What is computed is known to be something else."""
    RANDOM = auto()
    """Random numbers are drawn, so that the results cannot be compared."""
    UNKNOWN = auto()
    ROUNDED = auto()
    """They differ in how they are rounded."""
    DIFFERENT = auto()


@dataclass(frozen=True)
class TriedChange:
    """A change that was raced against the script as it is, and its gain for a step."""

    name: str
    about: str
    """What was changed: a module, an optimizer, or a line."""
    as_it_is_s: float
    changed_s: float
    """The seconds of a pass before and after the change: the shortest of some."""
    usual_s: float
    """The median of the passes before the change, as busy as the machine was."""
    times: float
    """How many such passes a training step has; 0 if all of the phases below are such passes."""
    phases_ms: float
    """The milliseconds of a step in the phases in which the change can save time."""
    step_ms: float
    faster: float
    """The share of the rounds in which it was faster."""
    sure: bool
    """Whether it was faster by more than noise."""
    begin_s: float
    """What it costs to begin, such as to compile."""
    difference: float | None
    """The largest difference of the results, relative to the largest value; None if it is not known."""
    draws: bool = False
    """Whether random numbers are drawn, so that the results cannot be compared."""
    error: str = ""
    """Why it could not be tried; the figures then mean nothing."""
    undisturbed_ms: float = 0.0
    """The milliseconds of a step that other programs disturbed least; 0 if that is no other than `step_ms`."""
    setting: str = ""
    """What was changed to, if that was searched for, such as "4 threads"."""

    @property
    def cause(self) -> TriedCause:
        """The cause that was tried."""
        return tried_causes()[self.name]

    @property
    def saved_ms(self) -> float:
        """The milliseconds that it would save in a step: what the passes of a step take, less what they would take."""
        if self.error or self.changed_s >= self.as_it_is_s:
            return 0.0
        seen_ms = min(self.usual_s * 1e3 * self.times, self.phases_ms) if self.times else self.phases_ms
        return seen_ms * (1.0 - self.changed_s / self.as_it_is_s)

    @property
    def gain(self) -> float:
        """The speedup of a step: `step_ms` divided by the same without `saved_ms`."""
        return gain_of(self.step_ms, self.step_ms - self.saved_ms)

    @property
    def most_gain(self) -> float:
        """The speedup if all of the phases are such passes, with what a copy does not show."""
        if self.cause.extent is not Extent.PASSES_OR_ALL or not self.saved_ms:
            return self.gain
        return gain_of(self.step_ms, self.step_ms - self.phases_ms * (1.0 - self.changed_s / self.as_it_is_s))

    @property
    def has_effect(self) -> bool:
        """Whether it is worth a change of the script; what takes all of its phases is, if it is beside short steps."""
        gain = self.gain
        if self.cause.extent is Extent.PASSES_OR_ALL and self.undisturbed_ms and self.saved_ms:
            saved_ms = (self.as_it_is_s - self.changed_s) * self.times * 1e3
            gain = max(gain, gain_of(self.undisturbed_ms, self.undisturbed_ms - saved_ms))
        return gain >= MIN_GAIN and self.sure

    @property
    def new_results(self) -> NewResults:
        """What becomes of the numbers."""
        if self.setting in self.cause.other_results:
            return NewResults.OTHER_MATH
        if self.cause.results is Results.SAME:
            return NewResults.SAME
        if self.draws:
            return NewResults.RANDOM
        if self.difference is None:
            return NewResults.UNKNOWN
        is_same = self.cause.results is Results.SAME_OPERATIONS and self.difference < ROUNDING
        if is_same or not self.difference:
            return NewResults.SAME
        return NewResults.ROUNDED if self.difference < ROUNDING else NewResults.DIFFERENT

    @property
    def results(self) -> str:
        """The same in a sentence; empty if it is not known."""
        match self.new_results:
            case NewResults.SAME:
                return SAME_RESULTS
            case NewResults.OTHER_MATH:
                return self.cause.other_results[self.setting]
            case NewResults.RANDOM:
                return (
                    "Whether the results are the same could not be seen, as each pass draws random numbers, as dropout "
                    "does: see whether the loss still falls as it did."
                )
            case NewResults.ROUNDED:
                by = f"by {self.difference:.0e} of the largest value at most"
                return f"The results differ only in how they are rounded, {by}: nothing is to be done about that."
            case NewResults.DIFFERENT:
                by = f"by up to {self.difference:.0%} of the largest value, more than rounding does"
                return f"The results differ {by}: see whether the loss still falls as it did."
        return ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        derived = ("saved_ms", "gain", "most_gain", "has_effect", "results")
        return asdict(self) | {name: getattr(self, name) for name in derived}


def tried_changes(measurement: Measurement) -> list[TriedChange]:
    """Return all changes that were tried, those with the largest gain first."""
    trials = [each for each in _last(measurement) if each.applies]
    known = tried_causes() if trials else {}
    found = [_change(measurement, each) for each in trials if each.name in known and known[each.name].phases]
    return sorted(found, key=lambda each: each.gain, reverse=True)


def trial_of(measurement: Measurement, change: TriedChange) -> Trial:
    """Return what was noted of a change."""
    return next(each for each in _last(measurement) if (each.name, each.about) == (change.name, change.about))


def line_to_change(measurement: Measurement, change: TriedChange) -> Path:
    """Return the line that a trial was about, or the call of the script that asks for what was changed."""
    observations = measurement.observations
    if stack := trial_of(measurement, change).stack:
        return observations.user_frames_of(stack)
    names = change.about.replace(";", ",").split(", ")
    asks = [each for name in names for each in observations.settings if change.cause.is_asked_by(each, name)]
    if not asks:
        return ()
    last = change.cause.extent is Extent.ALL  # of calls for a setting of the whole process, the last one counts
    return observations.user_frames_of(asks[-1 if last else 0].stack)


def is_faster(measurement: Measurement, trial: Trial) -> bool:
    """Return whether a change was faster by more than noise, as one of all that were tried.

    Compared are the rounds of its race: what slows down both passes of a round is not in their ratio.
    """
    compared = sum(each.applies and not each.error for each in _last(measurement))
    ratios = np.log([[max(seconds, 1e-9) for seconds in each] for each in trial.rounds or [(1.0, 1.0)]])
    logs = ratios[:, 0] - ratios[:, 1]
    return bool(logs.mean() > noise.margin(logs, noise.ERROR_RATE / max(compared, 1)))


def _last(measurement: Measurement) -> list[Trial]:
    return list({(each.name, each.about): each for each in measurement.observations.raced}.values())


def _change(measurement: Measurement, trial: Trial) -> TriedChange:
    is_busy, cause = measurement.machine is not None and measurement.machine.busy, tried_causes()[trial.name]
    change = TriedChange(
        name=trial.name,
        about=trial.about,
        as_it_is_s=trial.as_it_is_s,
        changed_s=trial.changed_s,
        usual_s=trial.usual_s,
        times=0.0 if cause.extent is Extent.ALL else trial.times,
        phases_ms=measurement.table.share(*cause.phases) * measurement.steps.ms_a_step,
        step_ms=measurement.steps.ms_a_step,
        faster=sum(after < before for before, after in trial.rounds) / max(len(trial.rounds), 1),
        sure=is_faster(measurement, trial),
        begin_s=trial.begin_s,
        difference=trial.difference,
        draws=trial.draws,
        error=trial.error,
        setting=trial.setting,
        undisturbed_ms=measurement.undisturbed_ms if is_busy else 0.0,
    )
    is_noise = change.gain >= MIN_GAIN and not change.sure
    if is_busy and not trial.error and (is_noise or cause.needs_idle_cores):
        return replace(change, error="the machine was busy")
    return change
