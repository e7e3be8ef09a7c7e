"""What came out of tuning a DataLoader: what was tried, what is taken, and why."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from workshop.diagnosis.findings import Finding
from workshop.diagnosis.loading import LoadingLine
from workshop.diagnosis.measurement import MeasuredSteps
from workshop.judge.verdict import Verdict
from workshop.probe.loader_settings import LoaderSettings
from workshop.runs.other_load import OtherLoad
from workshop.runs.script import ScriptError
from workshop.tuning.loader_edit import LoaderEdit
from workshop.tuning.tried_setting import TriedSetting


class Advice(StrEnum):
    """What to do."""

    TAKE = "take"
    """Other settings are faster."""
    LEAVE = "leave"
    """No other settings are worth an edit."""
    UNDECIDED = "undecided"
    """The noise, or the time, allows no answer."""
    NOT_TUNED = "not tuned"
    """The script has nothing that could be tuned."""


@dataclass(frozen=True)
class Tuning:
    """The result of `workshop tune`."""

    advice: Advice
    reason: str
    """Why, in a sentence."""
    steps: MeasuredSteps | None = None
    """The steps of the unchanged script."""
    headroom: MeasuredSteps | None = None
    """The steps with batches from memory."""
    present: LoaderSettings | None = None
    taken: LoaderSettings | None = None
    """The settings to take; None to leave it."""
    speedup: float = 1.0
    """That of the settings to take, in the run that tried them, the start of workers for each epoch included."""
    tried: tuple[TriedSetting, ...] = ()
    epoch_steps: int | None = None
    slowest: LoadingLine | None = None
    """The line that takes most of the loading in the unchanged script; None if loading takes little of it."""
    where: str = ""
    """The line that makes the DataLoader, or the library's argument."""
    edit: LoaderEdit | None = None
    why_no_edit: str = ""
    limits: tuple[Finding, ...] = ()
    """What limits the script with the settings to take, or with the present ones, as `measure` finds it."""
    waits_share: float = 0.0
    """The share of a step that then still waits for data."""
    notes: tuple[str, ...] = ()
    crash: ScriptError | None = None
    """How the script first crashed while settings were tried; None if it did not."""
    machine: OtherLoad | None = None
    verdict: Verdict | None = None
    """The judge's, on the edited script against the script."""
    why_no_proof: str = ""
    is_noise: bool = False
    """Whether the noise, or the time, is what allows no answer: trying it again may give one."""
    interrupted: bool = False
    """Whether Ctrl-C has ended the search, or the proof."""
    ranks: int = 1

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; rates are of one rank."""
        edit = self.edit and {
            "file": str(self.edit.path),
            "line": self.edit.line,
            "arguments": dict(self.edit.arguments),
            "diff": self.edit.diff,
        }
        return {
            "advice": str(self.advice),
            "reason": self.reason,
            "present": self.present and asdict(self.present),
            "taken": self.taken and asdict(self.taken),
            "speedup": self.speedup,
            "steps": self.steps and self.steps.as_dict(),
            "headroom": self.headroom and self.headroom.as_dict(),
            "tried": [each.as_dict() for each in self.tried],
            "epoch_steps": self.epoch_steps,
            "slowest": self.slowest and self.slowest.as_dict(),
            "where": self.where,
            "edit": edit,
            "why_no_edit": self.why_no_edit,
            "limits": [each.as_dict() for each in self.limits],
            "waits_share": self.waits_share,
            "notes": self.notes,
            "crash": self.crash and self.crash.as_dict(),
            "machine": self.machine and self.machine.as_dict(),
            "verdict": self.verdict and self.verdict.as_dict(),
            "why_no_proof": self.why_no_proof,
            "is_noise": self.is_noise,
            "interrupted": self.interrupted,
            "ranks": self.ranks,
        }
