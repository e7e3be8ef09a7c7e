"""What was tried on copies of the model and of the optimizer, and what each change would bring to a step."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from workshop import noise
from workshop.diagnosis.findings import MIN_GAIN, gain_of
from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.samples import Observations
from workshop.diagnosis.user_lines import Path
from workshop.probe.observations import Trial
from workshop.probe.phases import COMPUTING, Phase

SAME = 0.0
ROUNDING = 0.05
"""A larger difference of the results, relative to the largest value, is more than rounding."""

OF_MODEL = COMPUTING[:2]

PHASES: dict[str, tuple[Phase, ...]] = {
    "one-thread": COMPUTING,
    "float64": COMPUTING,
    "anomaly-mode": OF_MODEL,
    "other-threads": OF_MODEL,
    "set-to-none": COMPUTING,
    "inference-mode": (Phase.VALIDATION,),
    "pageable-copy": (Phase.COPY,),
    "channels-last": OF_MODEL,
    "bfloat16": OF_MODEL,
    "matmul-precision": OF_MODEL,
    "cudnn-benchmark": OF_MODEL,
    "torch-compile": OF_MODEL,
    "fused-optimizer": (Phase.OPTIMIZER,),
    "foreach-optimizer": (Phase.OPTIMIZER,),
    "dense-embedding": (Phase.BACKWARD, Phase.OPTIMIZER),
    "small-modules": COMPUTING,
    "unused-gradients": (Phase.BACKWARD,),
    "unused-graph": (Phase.FORWARD,),
    "graph-twice": (Phase.BACKWARD,),
    "repeated-call": OF_MODEL,
    "padded-batches": OF_MODEL,
    "ignored-targets": OF_MODEL,
}
"""The phases in which each change saves time, by the name of the trial."""

ONLY_RATIO = ("one-thread", "float64", "anomaly-mode", "pageable-copy")
"""Changes of everything that is computed, or copied: only the ratio of their seconds counts."""

ONLY_IDLE = ("other-threads",)
"""Changes that may be faster only because other programs use the cores: it says nothing of an idle machine."""

ALL_OF_PHASES = ("dense-embedding", "small-modules", "padded-batches")
"""Changes of what takes nearly all of their phases."""

SAME_RESULTS = "The results are the same."

OTHER_MATH = {
    "dense-embedding": "With SparseAdam, the results differ: it has no weight decay, and rows that no batch touches "
    "stay as they are, where Adam moves them on: see whether the loss still falls as it did."
}
"""The changes of which a difference is more than rounding, and what it is."""

SAME_MATH = ("set-to-none", "inference-mode", "repeated-call")
"""The changes that alter no operation: where their results differ in rounding, so do those of the same pass twice."""


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
        if self.name not in ALL_OF_PHASES or not self.saved_ms:
            return self.gain
        return gain_of(self.step_ms, self.step_ms - self.phases_ms * (1.0 - self.changed_s / self.as_it_is_s))

    @property
    def has_effect(self) -> bool:
        """Whether it is worth a change of the script; what takes all of its phases is, if it is beside short steps."""
        gain = self.gain
        if self.name in ALL_OF_PHASES and self.undisturbed_ms and self.saved_ms:
            saved_ms = (self.as_it_is_s - self.changed_s) * self.times * 1e3
            gain = max(gain, gain_of(self.undisturbed_ms, self.undisturbed_ms - saved_ms))
        return gain >= MIN_GAIN and self.sure

    @property
    def results(self) -> str:
        """What becomes of the numbers, in a sentence; empty if it is not known."""
        if self.name in OTHER_MATH:
            return OTHER_MATH[self.name] if "Adam" in self.about else SAME_RESULTS
        if self.name in ("unused-gradients", "graph-twice", "unused-graph"):
            return SAME_RESULTS
        if self.draws:
            return (
                "Whether the results are the same could not be seen, as each pass draws random numbers, as dropout "
                "does: see whether the loss still falls as it did."
            )
        if self.difference is None:
            return ""
        if self.difference == SAME or (self.name in SAME_MATH and self.difference < ROUNDING):
            return SAME_RESULTS
        if self.difference < ROUNDING:
            by = f"{self.difference:.0e} of the largest value"
            return (
                f"The results differ only in how they are rounded, by {by} at most: nothing is to be done about that."
            )
        by = f"{self.difference:.0%} of the largest value"
        return f"The results differ by up to {by}, more than rounding does: see whether the loss still falls as it did."

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **asdict(self),
            "saved_ms": self.saved_ms,
            "gain": self.gain,
            "most_gain": self.most_gain,
            "has_effect": self.has_effect,
            "results": self.results,
        }


def tried_changes(measurement: Measurement) -> list[TriedChange]:
    """Return all changes that were tried, those with the largest gain first."""
    found = [_change(measurement, each) for each in _last(measurement) if each.applies and each.name in PHASES]
    return sorted(found, key=lambda each: each.gain, reverse=True)


def trial_of(measurement: Measurement, change: TriedChange) -> Trial:
    """Return what was noted of a change."""
    return next(each for each in _last(measurement) if (each.name, each.about) == (change.name, change.about))


def zeroing(observations: Observations) -> Path:
    """Return where gradients are cleared by filling them with zeros; empty if they are not."""
    made = (each for each in observations.settings if each.function == "zero_grad" and "False" in each.values)
    return next((observations.user_frames_of(each.stack) for each in made), ())


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
    is_busy = measurement.machine is not None and measurement.machine.busy
    change = TriedChange(
        name=trial.name,
        about=trial.about,
        as_it_is_s=trial.as_it_is_s,
        changed_s=trial.changed_s,
        usual_s=trial.usual_s,
        times=0.0 if trial.name in ONLY_RATIO else trial.times,
        phases_ms=measurement.table.share(*PHASES[trial.name]) * measurement.steps.ms_a_step,
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
    if is_busy and not trial.error and (is_noise or trial.name in ONLY_IDLE):
        return replace(change, error="the machine was busy")
    return change
