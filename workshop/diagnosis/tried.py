"""What was tried on copies of the model and of the optimizer, what each change would bring to a step, and the findings.

A finding is what is computed for nothing, or a setting with which it is computed faster.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from workshop import noise
from workshop.diagnosis.findings import MIN_GAIN, Finding, finding, gain_of
from workshop.diagnosis.loading import Loading
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.user_lines import Path
from workshop.probe.cause import Cause, Extent, Results, TriedCause
from workshop.probe.observations import Trial
from workshop.probe.trials import tried_causes
from workshop.terminal import some_of

ROUNDING = 0.05
"""The largest difference of results that may be rounding, relative to the largest value."""


class NewResults(Enum):
    """What becomes of the numbers that a training computes, in a sentence; empty if it is not known."""

    SAME = "The results are the same."
    OTHER_MATH = "{other}"
    """What is computed is known to be something else."""
    RANDOM = (
        "Whether the results are the same could not be seen, as each pass draws random numbers, as dropout does: see "
        "whether the loss still falls as it did."
    )
    UNKNOWN = ""
    ROUNDED = (
        "The results differ only in how they are rounded, by {difference:.0e} of the largest value at most: nothing is "
        "to be done about that."
    )
    DIFFERENT = (
        "The results differ by up to {difference:.0%} of the largest value, more than rounding does: see whether the "
        "loss still falls as it did."
    )


@dataclass(frozen=True)
class TriedChange:
    """A change that was raced against the script as it is, and its gain for a step."""

    trial: Trial
    cause: TriedCause
    phases_ms: float
    """The milliseconds of a step in the phases in which the change can save time."""
    step_ms: float
    sure: bool
    """Whether it was faster by more than noise."""
    is_busy: bool = False
    """Whether other programs used the cores meanwhile."""
    error: str = ""
    """Why it could not be tried; the figures then mean nothing."""
    undisturbed_ms: float = 0.0
    """The milliseconds of a step that other programs disturbed least; 0 if that is no other than `step_ms`."""

    @property
    def name(self) -> str:
        """The name of the cause."""
        return self.cause.name

    @property
    def times(self) -> float:
        """How many such passes a training step has; 0 if all of the phases are such passes."""
        return 0.0 if self.cause.extent is Extent.ALL else self.trial.times

    @property
    def faster(self) -> float:
        """The share of the rounds in which it was faster."""
        rounds = self.trial.rounds
        return sum(after < before for before, after in rounds) / max(len(rounds), 1)

    @property
    def left(self) -> float:
        """The share of a pass that is left with the change."""
        return self.trial.changed_s / self.trial.as_it_is_s if self.trial.as_it_is_s else 1.0

    @property
    def saved_ms(self) -> float:
        """The milliseconds that it would save in a step: what the passes of a step take, less what they would take."""
        if self.error or self.left >= 1.0:
            return 0.0
        seen_ms = min(self.trial.usual_s * 1e3 * self.times, self.phases_ms) if self.times else self.phases_ms
        return seen_ms * (1.0 - self.left)

    @property
    def gain(self) -> float:
        """The speedup of a step: `step_ms` divided by the same without `saved_ms`."""
        return gain_of(self.step_ms, self.step_ms - self.saved_ms)

    @property
    def most_gain(self) -> float:
        """The speedup if all of the phases are such passes, with what a copy does not show."""
        if self.cause.extent is not Extent.PASSES_OR_ALL or not self.saved_ms:
            return self.gain
        return gain_of(self.step_ms, self.step_ms - self.phases_ms * (1.0 - self.left))

    @property
    def has_effect(self) -> bool:
        """Whether it is worth a change of the script; what takes all of its phases is, if it is beside short steps."""
        gain = self.gain
        if self.cause.extent is Extent.PASSES_OR_ALL and self.undisturbed_ms and self.saved_ms:
            saved_ms = (self.trial.as_it_is_s - self.trial.changed_s) * self.times * 1e3
            gain = max(gain, gain_of(self.undisturbed_ms, self.undisturbed_ms - saved_ms))
        return gain >= MIN_GAIN and self.sure and not (self.is_busy and self.cause.needs_idle_cores)

    @property
    def is_undecided(self) -> bool:
        """Whether it was faster, and may owe that to the other programs on a busy machine."""
        gains = not self.error and self.gain >= MIN_GAIN
        return self.is_busy and gains and (not self.sure or self.cause.needs_idle_cores)

    @property
    def new_results(self) -> NewResults:
        """What becomes of the numbers."""
        difference = self.trial.difference
        if self.trial.setting in self.cause.other_results:
            return NewResults.OTHER_MATH
        if self.cause.results is Results.SAME:
            return NewResults.SAME
        if self.trial.draws:
            return NewResults.RANDOM
        if difference is None:
            return NewResults.UNKNOWN
        if not difference or (self.cause.results is Results.SAME_OPERATIONS and difference < ROUNDING):
            return NewResults.SAME
        return NewResults.ROUNDED if difference < ROUNDING else NewResults.DIFFERENT

    @property
    def results(self) -> str:
        """The same in a sentence; empty if it is not known."""
        other = self.cause.other_results.get(self.trial.setting, "")
        return self.new_results.value.format(other=other, difference=self.trial.difference)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        noted = ("about", "as_it_is_s", "changed_s", "usual_s", "begin_s", "difference", "draws", "setting")
        own = ("name", "times", "phases_ms", "step_ms", "faster", "sure", "is_undecided", "error", "undisturbed_ms")
        derived = ("saved_ms", "gain", "most_gain", "has_effect", "results")
        return {name: getattr(self.trial if name in noted else self, name) for name in (*noted, *own, *derived)}


def tried_changes(measurement: Measurement) -> list[TriedChange]:
    """Return all changes that were tried, those with the largest gain first."""
    trials = [each for each in _last(measurement) if each.applies]
    known = tried_causes() if trials else {}
    changes = [_change(measurement, each, cause) for each in trials if (cause := known.get(each.name)) and cause.phases]
    return sorted(changes, key=lambda each: each.gain, reverse=True)


def tried_findings(measurement: Measurement) -> list[Finding]:
    """Return what was faster in a trial; of those that exclude each other, the one that brings most."""
    found: list[Finding] = []
    groups = set[str]()
    for each in tried_changes(measurement):
        cause, trial = each.cause, each.trial
        if not cause.words or not each.has_effect or cause.group in groups:
            continue
        groups.update({cause.group} - {""})
        often = f", {each.times:.2g} times a step" if round(each.times, 1) not in (0.0, 1.0) else ""
        words = cause.words_where_it_leads_on if trial.leads_on else cause.words
        said = [words.format(about=_about(trial), setting=trial.setting, number=trial.setting.partition(" ")[0])]
        said.append(f"Tried: {trial.as_it_is_s * 1e3:.2f} ms became {trial.changed_s * 1e3:.2f}{often}. {each.results}")
        if trial.begin_s >= 1.0:
            said.append(f"The first step takes {trial.begin_s:.0f} s longer.")
        path = _line_to_change(measurement, each)
        phase = cause.phases[0] if len(cause.phases) == 1 else ""
        found.append(finding_of(each, cause, " ".join(one.strip() for one in said), path, phase))
    return found


def finding_of(change: TriedChange, cause: Cause, words: str, path: Path, phase: str = "") -> Finding:
    """Return the finding that a change which was faster is."""
    share = 1.0 - 1.0 / change.most_gain
    return finding(
        cause,
        words,
        gain=change.most_gain,
        low=change.gain,
        phase=phase,
        path=path,
        ms_a_step=share * change.step_ms,
        share=share,
        measured=True,
    )


def _about(trial: Trial) -> str:
    """What was changed, as a sentence has it: the first few of many names, and the optimizer that a list ends with."""
    names, ends, rest = trial.about.partition("; ")
    return f"{some_of(names.split(', '))}{ends}{rest}"


def _line_to_change(measurement: Measurement, change: TriedChange) -> Path:
    """Return the line that a trial was about, or the call of the script that asks for what was changed."""
    observations = measurement.observations
    if change.cause.is_of_collate and (line := Loading(measurement).collate_line):
        return line.path
    if change.trial.stack:
        return observations.user_frames_of(change.trial.stack)
    names = change.trial.about.replace(";", ",").split(", ")
    asks = [each for name in names for each in observations.settings if change.cause.is_asked_by(each, name)]
    if not asks:
        return ()
    last = change.cause.extent is Extent.ALL  # of calls for a setting of the whole process, the last one counts
    return observations.user_frames_of(asks[-1 if last else 0].stack)


def is_faster(measurement: Measurement, trial: Trial) -> bool:
    """Return whether a change was faster by more than noise, as one of all that were tried.

    Compared are the ratios of the rounds, as what slows down both passes of a round is not in them; and the ranks of
    all passes, as a few that something interrupts make ratios uncertain, and hardly change a rank. Either may tell.
    """
    compared = 2 * max(sum(each.applies and not each.error for each in _last(measurement)), 1)
    passes = np.array([[max(seconds, 1e-9) for seconds in each] for each in trial.rounds or [(1.0, 1.0)]])
    logs = np.log(passes[:, 0] / passes[:, 1])
    ranks = passes.ravel().argsort().argsort().reshape(passes.shape)
    by_rank = noise.change(ranks[:, 1], ranks[:, 0])
    by_ratio = logs.mean() > noise.margin(logs, noise.ERROR_RATE / compared)
    return bool(by_ratio or (by_rank.mean > 0 and by_rank.is_real(compared)))


def _last(measurement: Measurement) -> list[Trial]:
    return list({(each.name, each.about): each for each in measurement.observations.raced}.values())


def _change(measurement: Measurement, trial: Trial, cause: TriedCause) -> TriedChange:
    is_busy = measurement.machine is not None and measurement.machine.busy
    return TriedChange(
        trial,
        cause,
        phases_ms=measurement.table.share(*cause.phases) * measurement.steps.ms_a_step,
        step_ms=measurement.steps.ms_a_step,
        sure=is_faster(measurement, trial),
        is_busy=is_busy,
        error=trial.error,
        undisturbed_ms=measurement.undisturbed_ms if is_busy else 0.0,
    )
