"""What a cause of lost time is: its name, what to do about it, and how it is tried inside a script.

Nothing here needs torch. The causes that are tried are declared in the files of `workshop.probe.trials`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum, auto

from workshop.probe.messages import Circumstances
from workshop.probe.observations import SettingMade
from workshop.probe.phases import Phase

PASSES = 16
"""The number of passes that a trial runs, about."""


class CausePlace(IntEnum):
    """Where a cause stands among those that were found."""

    FIRST = auto()
    """Others may be its consequences."""
    FAULT = auto()
    OPTION = auto()
    """A setting that was faster in a trial: not to use it is no fault of the script."""


class Half(StrEnum):
    """A part of a step whose end is the most that a fix can bring: a headroom."""

    DATA = "data"
    """The wait for data."""
    LAUNCHES = "launches"
    """What is neither that nor the computing of operators: Python, and what it takes to call them."""
    ARITHMETIC = "arithmetic"
    """What operators take longer than this device needs for their work."""


@dataclass(frozen=True)
class Cause:
    """Why a script is slow."""

    name: str
    """A stable name, such as "slow-item"."""
    words: str
    """What to do about it, in a sentence or two, with the names of figures in braces."""
    place: CausePlace = CausePlace.FAULT
    half: Half | None = None
    """The headroom that is the most its fix can bring; None where that follows from other figures, as from the time of
    a line whose operators are saved, too."""


class Moment(Enum):
    """The part of a measurement in which a cause is tried."""

    THROUGHOUT = auto()
    """From the first steps on, as long as the script runs: it is only watched, and at most tried between two parts."""
    CLOSER_LOOK = auto()
    """The first steps, in which backward passes are cut into lines."""
    BEFORE = auto()
    """Before the steps are measured."""
    WATCHING = auto()
    """Some steps after them, in which it is watched, too, whether there is something to try."""
    AFTER = auto()
    """After those, one trial at a time, as long as there is time."""


class Extent(Enum):
    """How much of its phases a step spends on what was tried."""

    PASSES = auto()
    """As many passes as a step was seen to have."""
    PASSES_OR_ALL = auto()
    """At least these passes, and at most all of the phases: a copy does not show all that is done."""
    ALL = auto()
    """All of the phases: only the ratio of the seconds counts."""


class Results(Enum):
    """How it is known whether the results of a step change."""

    COMPARED = auto()
    """What both passes return is compared."""
    SAME_OPERATIONS = auto()
    """No operation changes: a difference of rounding is one that the same pass has twice."""
    SAME = auto()
    """They are the same by what is changed."""


@dataclass(frozen=True)
class FirstLook:
    """What is known of a script when it is decided what to try."""

    circumstances: Circumstances
    settings: Sequence[SettingMade] = ()
    cores: int = 1
    """The number of cores for this process."""
    operations: int = 0
    """The number of operations of the largest backward pass."""
    validations_s: float = 0.0
    """Seconds from one validation to the next."""
    launch_headroom: float = math.inf
    """The speedup that fewer calls of operators can bring at most; infinite if it is not known."""


@dataclass(frozen=True)
class TriedCause(Cause):
    """A cause that is tried: what a change saves, when it is worth trying, and which line is to be changed.

    If it has words, a faster trial is a finding; otherwise it is one of the figures of which a cause of
    `workshop.diagnosis.causes` makes one.
    """

    words: str = ""

    phases: tuple[Phase, ...] = (Phase.FORWARD, Phase.BACKWARD)
    """The phases in which the change saves time; none of a trial whose figures only help to judge others."""
    moment: Moment = Moment.AFTER
    is_worth_it: Callable[[FirstLook], bool] = lambda look: True
    seconds: Callable[[float, FirstLook], float] = lambda pass_s, look: PASSES * pass_s
    """Seconds that the trial takes, about, by those of a step in its phases."""
    extent: Extent = Extent.PASSES
    results: Results = Results.COMPARED
    other_results: Mapping[str, str] = field(default_factory=dict)
    """What is said of the results, by what was changed to, where that is known to compute something else."""
    of_compiled: bool = False
    """Whether it is tried or watched where torch.compile has made the model, too."""
    needs_idle_cores: bool = False
    """Whether it may be faster only because other programs use the cores: it then says nothing of an idle machine."""
    group: str = ""
    """The name of causes that exclude each other, of which only the one that brings most is named."""
    words_where_it_leads_on: str = ""
    """What to do instead where gradients lead on to others that are used."""
    is_asked_by: Callable[[SettingMade, str], bool] = lambda made, name: False
    """Whether a call of the script, with one of the names of what was changed, is the line to change."""
    is_of_collate: bool = False
    """Whether the line to change is where batches are put together, if that is in user code."""
