"""The verdict of a check, as data: an outcome, why, and the figures it rests on."""

import enum
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from workshop.errors import EXIT_CRASHED
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.runs.other_load import OtherLoad
from workshop.runs.script_error import ScriptError, UnseenError, shorten

SCHEMA_VERSION = 3
"""The version of a verdict's fields in JSON: since 2, there are `unraced` and `timing`; since 3, `kinds`."""

HALF_DONE = "half done"
"""The state of a part that asks for an answer and a change, when only one of them is right."""

MAX_ENDS_APART = 100
"""Times, at most, that one end of an interval is the other: beyond, it says nothing about a speedup."""


class VerdictReason(ReasonKind):
    """What is said of a script that broke, or whose work cannot be seen."""

    SCRIPT_UNSEEN = "what {script} does cannot be seen: {error}", UNSEEN
    CRASHED = "{script} crashed: {error}"
    STOPPED = "{script} was stopped: {error}"
    NOT_TRAINED = "the script does not train: {error}"
    HOW_IT_RUNS_ALONE = "{sentence}"
    WORK_UNSEEN = "the judge cannot see whether it is the same work: {0}", UNSEEN


class Outcome(enum.Enum):
    """How a check ends; the exit codes are stable."""

    DONE = "done"
    NOT_YET = "not there yet"
    OTHER_WORK = "not the same work"
    UNDECIDED = "undecided"
    BROKEN = "broken"

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends with this outcome; 2 is reserved for wrong usage."""
        codes = {"done": 0, "not there yet": 1, "not the same work": 3, "undecided": 4, "broken": EXIT_CRASHED}
        return codes[self.value]


@dataclass(frozen=True)
class Speed:
    """A measured race. Rates are in samples per second, phases in seconds per epoch."""

    original: str
    """The name of the script that the candidate was raced against."""
    candidate: str
    """The name of the script that was judged."""
    rate_before: float
    """Of the geometric mean of the pairs' seconds, so that the two rates differ by the speedup; as `rate_after`."""
    rate_after: float
    ratio: float
    low: float
    """The lower end of the ratio's 95 % interval, which decided the race."""
    high: float
    pairs: int
    target: float
    phases_before: dict[str, float]
    phases_after: dict[str, float]
    headroom_rate: float | None
    """The rate of the original's loop with its batches in memory; None if no batch was left, or it was no limit."""
    solution_ratio: float | None
    """The ratio that the solution reached on this machine."""
    items: int = 0
    """The number of items in an epoch."""
    steps: int = 0
    """The number of steps that stand for an epoch, of a script that has none; 0 for any other."""

    @property
    def stretch(self) -> str:
        """What the phases were measured over: "an epoch, 41 items"."""
        return ", ".join(
            [f"{self.steps} steps" if self.steps else "an epoch", *[f"{self.items} items"] * bool(self.items)]
        )

    def text(self, ratio: float) -> str:
        """Return a ratio with two decimals, or with as many as show on which side of the target it is."""
        texts = (f"{ratio:.{digits}f}" for digits in range(2, 17))
        return next((text for text in texts if (float(text) < self.target) == (ratio < self.target)), repr(ratio))

    @property
    def says_nothing(self) -> bool:
        """Whether the interval is so wide that it says no more than the verdict."""
        return self.high > MAX_ENDS_APART * self.low

    @property
    def may_be(self) -> str:
        """What the interval says of the speedup."""
        if self.says_nothing:
            if self.low >= self.target:
                return f"at least {self.text(self.low)}x"
            return f"below {self.target:g}x" if self.high < self.target else "anything: the pairs differ too much"
        return f"{self.text(self.low)}x to {self.text(self.high)}x"


@dataclass(frozen=True)
class Timing:
    """What a part times beside a race or in place of one: medians of a few runs, without an interval."""

    before: str
    """What is timed first, such as "the untouched script"."""
    after: str
    before_s: float
    after_s: float
    of: str
    """What is timed, such as "a step"."""
    runs: int
    """How often each is timed."""

    @property
    def ratio(self) -> float:
        """The speedup."""
        return self.before_s / self.after_s


@dataclass(frozen=True)
class MemoryPeaks:
    """The most that all tensors of a training took together, in a part that asks for less of it."""

    before: str
    """The name of the script that the part begins with."""
    after: str
    after_bytes: int
    limit_bytes: int
    before_bytes: int | None = None
    """None where it was not measured: the candidate is over the limit."""


@dataclass(frozen=True)
class NotLookedAt:
    """What a check would have looked at on another device."""

    device: str
    """The type of the device that the script trained on: "cpu"."""
    aspects: tuple[str, ...]
    """What it is, each in words that go into a list."""

    def __str__(self) -> str:
        return f"not looked at on {self.device}, where nothing is copied to a GPU: {', '.join(self.aspects)}"


@dataclass(frozen=True)
class NextStep:
    """What to do next."""

    commands: tuple[str, ...] = ()
    """Commands to type."""
    words: Reason | None = None
    """What to do, in a sentence that names the commands, if there are any; None where they say it themselves."""

    def __str__(self) -> str:
        return str(self.words) if self.words else "\n".join(self.commands)


@dataclass(frozen=True)
class Verdict:
    """The end of a check."""

    subject: str
    """The part, or the script."""
    outcome: Outcome
    reasons: tuple[Reason, ...]
    """Why it is as it is, the most important first."""
    speed: Speed | None = None
    next: NextStep = NextStep()
    output: str = ""
    """The end of what the script printed, if it broke."""
    shares: dict[str, float] = field(default_factory=dict)
    """How busy each resource was, from 0 to 1."""
    machine: OtherLoad | None = None
    """What other programs used of the cores meanwhile; None if nothing was run."""
    answered: bool = False
    """Whether the part's question has been answered, rightly, and the verdict is on the change that it asks for."""
    question_open: bool = False
    """Whether the change is accepted, and only the answer to the part's question is missing."""
    timing: Timing | None = None
    """What a part timed beside a race, or in place of one."""
    undecided: str = ""
    """Why a race has decided nothing: one of `workshop.judge.race_verdict.Indecision`; "" if it has."""
    words: str = ""
    """How it ended, where the words of the outcome do not fit: a script that had to be no slower is not "done"."""
    has_race: bool = True
    """Whether a check of this kind races the script; where it never does, nothing is said of a race."""
    memory: MemoryPeaks | None = None
    """The memory, in a part that asks for less of it."""
    not_looked_at: NotLookedAt | None = None
    """What was not looked at on this machine; None where everything was."""

    @property
    def state(self) -> str:
        """How the check ended, in at most four words: the same in all commands and pages."""
        if self.question_open or (self.answered and self.outcome is not Outcome.DONE):
            return HALF_DONE
        return self._ended

    @property
    def headline(self) -> str:
        """How the check ended, and what is missing of a part that is half done."""
        if self.state != HALF_DONE:
            return self.state
        if self.question_open:
            return f"{HALF_DONE}: the change is right; the answer is missing"
        return f"{HALF_DONE}: the answer is right; the change: {self._ended}"

    @property
    def _ended(self) -> str:
        return self.words or ("crashed" if self.outcome is Outcome.BROKEN else self.outcome.value)

    @property
    def is_same_work(self) -> bool:
        """Whether the work was proven to be the same, also where it was not decided how much faster it is."""
        return self.speed is not None and not any(reason.is_unseen for reason in self.reasons)

    @property
    def unraced(self) -> str:
        """Why there was no race, and so no `speed`; "" where there was one, or never is."""
        if self.speed or not self.has_race or self.outcome is Outcome.DONE:
            return ""
        is_other = self.outcome is Outcome.OTHER_WORK
        return "a script that does other work is not raced" if is_other else "the check ended before a race"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: sentences, with the names of their kinds, and why there was no race, if so."""
        plain = asdict(replace(self, reasons=(), next=NextStep()))
        plain |= {"reasons": tuple(map(str, self.reasons)), "next": str(self.next)}
        plain |= {"kinds": [part.kind.label for reason in self.reasons for part in reason.parts]}
        plain |= {"outcome": self.outcome.value, "exit_code": self.outcome.exit_code, "unraced": self.unraced}
        plain |= {"state": self.state, "machine": self.machine and self.machine.as_dict()}
        return {"schema_version": SCHEMA_VERSION, **plain}


def broken(subject: str, error: ScriptError, original: str = "", called: str = "the original") -> Verdict:
    """Return the verdict on a script that did not finish an epoch.

    It may be the one named `original`, and `called` so: then there is nothing to compare with.
    """
    if isinstance(error, UnseenError):
        reason = VerdictReason.SCRIPT_UNSEEN(script=error.script, error=error)
        return Verdict(subject, Outcome.UNDECIDED, (reason,))
    outcome, kind = Outcome.BROKEN, VerdictReason.CRASHED if error.exit_code else VerdictReason.STOPPED
    if error.exit_code == 0:
        outcome, kind = Outcome.OTHER_WORK, VerdictReason.NOT_TRAINED
    alone = [VerdictReason.HOW_IT_RUNS_ALONE(sentence=error.about_alone)] * bool(error.about_alone)
    reasons = (kind(script=error.script, error=error), *alone)
    verdict = Verdict(subject, outcome, reasons, output=shorten(error.output))
    if error.script != original or original == subject:  # two scripts of one name cannot be told apart
        return verdict
    how = {None: "was stopped", 0: "does not train"}.get(error.exit_code, "crashed")
    return replace(verdict, outcome=Outcome.BROKEN, words=f"{called} {how}")


def other_work(subject: str, complaints: Sequence[Reason]) -> Verdict | None:
    """Return the verdict on the complaints of `differences`; None if there are none.

    If all of them say only what cannot be seen, the verdict is undecided.
    """
    if refused := tuple(complaint for complaint in complaints if not complaint.is_unseen):
        return Verdict(subject, Outcome.OTHER_WORK, refused)
    reasons = tuple(map(VerdictReason.WORK_UNSEEN, complaints))
    return Verdict(subject, Outcome.UNDECIDED, reasons) if reasons else None
