"""What came out of tuning a DataLoader: what was tried, what is taken, and why."""

from dataclasses import asdict, dataclass
from enum import Enum, StrEnum
from typing import Any

from workshop.diagnosis.findings import Finding
from workshop.diagnosis.loading import LoadingLine
from workshop.judge.verdict import Verdict
from workshop.probe.loader_settings import LoaderSettings
from workshop.runs.measured_steps import MeasuredSteps
from workshop.runs.other_load import OtherLoad, about
from workshop.runs.script_error import ScriptError
from workshop.tuning.loader_edit import LoaderEdit
from workshop.tuning.tried_settings import TriedSetting


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


class AdviceKind(Enum):
    """Kinds of reasons: the advice, and the sentence, with places for the figures of an `AdviceReason`."""

    NO_BATCHES = Advice.NOT_TUNED, "the training takes no batches from a DataLoader."
    NO_LOADER = Advice.NOT_TUNED, "no DataLoader was seen that the training goes through."
    NOTHING_KEPT = Advice.NOT_TUNED, "{cause}"
    REPEATED = (
        Advice.NOT_TUNED,
        "the dataset of {where} is iterable and does not ask for its worker: each of the {workers} workers goes "
        "through all of it, so every item comes {workers} times. Share it out first, with get_worker_info().",
    )
    NO_HEADROOM = (
        Advice.LEAVE,
        "with batches from memory, a step is {about}{speedup:.2f}x faster: no setting can gain 5 %.",
    )
    NOT_FASTER = Advice.LEAVE, "no other setting is 5 % faster for certain."
    OTHER_WORK = Advice.LEAVE, "the edited script does not do the same work: {cause}"
    DOES_NOT_RUN = Advice.LEAVE, "the edited script does not run: {cause}"
    FASTER = Advice.TAKE, "a step is {about}{speedup:.2f}x faster with {settings}."
    STOPPED = Advice.UNDECIDED, "stopped by Ctrl-C, before any setting was tried."
    NOT_YET_FASTER = Advice.UNDECIDED, "until Ctrl-C was pressed, no other setting was 5 % faster for certain."
    NOTHING_MEASURED = Advice.UNDECIDED, "{cause}."
    TOO_NOISY = Advice.UNDECIDED, "no other setting is faster by more than the noise of these steps."
    MAYBE_NOISE = Advice.UNDECIDED, "{settings} may be {speedup:.2f}x faster, or it is noise."
    MAYBE_OTHERS = (
        Advice.UNDECIDED,
        "busy machine: {settings} may be {speedup:.2f}x faster, or it is the other programs, which may have made "
        "steps {slower:.2f}x as long.",
    )
    NOT_PROVEN = (
        Advice.UNDECIDED,
        "the search found {settings} faster, but over whole epochs the judge measured a gain of less than 5 %.",
    )

    def __init__(self, advice: Advice, sentence: str) -> None:
        self.advice, self.sentence = advice, sentence

    @property
    def is_noise(self) -> bool:
        """Whether another try may give an answer: it was noise, or the time, that allowed none."""
        of_noise = (AdviceKind.TOO_NOISY, AdviceKind.MAYBE_NOISE, AdviceKind.MAYBE_OTHERS, AdviceKind.NOT_PROVEN)
        return self in of_noise


@dataclass(frozen=True)
class AdviceReason:
    """Why an advice is given, and its figures."""

    kind: AdviceKind
    settings: LoaderSettings | None = None
    """The settings that are taken, or might be."""
    speedup: float = 1.0
    """Theirs, or that of batches from memory, the start of workers for each epoch included."""
    slower: float = 1.0
    """How many times longer other programs may have made a step."""
    cause: str = ""
    """What the judge, or the script, has said."""


@dataclass(frozen=True)
class Tuning:
    """The result of `workshop tune`."""

    reason: AdviceReason
    steps: MeasuredSteps | None = None
    """The steps of the unchanged script."""
    headroom: MeasuredSteps | None = None
    """The steps with batches from memory."""
    present: LoaderSettings | None = None
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
    interrupted: bool = False
    """Whether Ctrl-C has ended the search, or the proof."""
    ranks: int = 1

    @property
    def advice(self) -> Advice:
        """What to do."""
        return self.reason.kind.advice

    @property
    def taken(self) -> LoaderSettings | None:
        """The settings to take; None to leave it."""
        return self.reason.settings if self.advice is Advice.TAKE else None

    @property
    def speedup(self) -> float:
        """That of the settings to take, in the run that tried them; 1 if none are."""
        return self.reason.speedup if self.taken else 1.0

    @property
    def is_noise(self) -> bool:
        """Whether the noise, or the time, is what allows no answer: trying it again may give one."""
        return self.reason.kind.is_noise and not self.interrupted

    @property
    def about(self) -> str:
        """What stands before figures: a word if the machine was busy."""
        return about(self.machine is not None and self.machine.busy)

    @property
    def says(self) -> str:
        """The reason, in a sentence."""
        reason, present = self.reason, self.present or LoaderSettings()
        return reason.kind.sentence.format(
            about=self.about,
            cause=reason.cause,
            settings=reason.settings.in_words(present) if reason.settings else "",
            slower=reason.slower,
            speedup=reason.speedup,
            where=self.where,
            workers=present.workers,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; rates are of one rank."""
        made = {"advice": str(self.advice), "reason": self.says, "taken": self.taken, "speedup": self.speedup}
        return {name: _plain(value) for name, value in (vars(self) | made | {"is_noise": self.is_noise}).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(_plain, value))
    if isinstance(value, LoaderSettings):
        return asdict(value)
    return value.as_dict() if hasattr(value, "as_dict") else value
