"""The measurement of a training script: its steps, unchanged and varied, and what its processes did meanwhile."""

from dataclasses import dataclass, field
from enum import Enum, auto

from workshop.diagnosis.samples import Observations
from workshop.diagnosis.user_lines import Path
from workshop.probe.messages import Circumstances
from workshop.probe.observations import Role
from workshop.probe.phases import Phase
from workshop.runs.measured_steps import MeasuredSteps
from workshop.runs.other_load import OtherLoad
from workshop.runs.script_error import ScriptError
from workshop.traces.step_lines import LinePart


class NoteKind(Enum):
    """What is said beside the figures of a measurement."""

    BUSY_MACHINE = auto()
    SHORTER_STEPS = auto()
    UNSURE_STAGE = auto()  # its times cannot be compared with those of the script as it is
    OTHER_STEP = auto()  # no optimizer ends a step
    LOADED_ELSEWHERE = auto()  # in another thread
    NO_HEADROOM = auto()
    NO_RESULT = auto()  # of what was tried
    NOT_TRIED = auto()
    NOTICED = auto()  # of a cause that is not tried
    INTERRUPTED = auto()
    NOT_SEEN = auto()  # or not recorded


@dataclass(frozen=True)
class Note:
    """What the figures of a measurement do not show."""

    kind: NoteKind
    words: str

    def __str__(self) -> str:
        """Return the sentence."""
        return self.words


@dataclass(frozen=True)
class Measurement:
    """The result of a measurement."""

    steps: MeasuredSteps
    """The steps of the unchanged script."""
    synchronized: MeasuredSteps | None = None
    """The steps with a wait for the GPU at the border of each phase, so that its work counts to the phase that asked
    for it; None without a CUDA device."""
    headroom: MeasuredSteps | None = None
    """The steps with batches from memory; None if that was not possible."""
    notes: tuple[Note, ...] = ()
    circumstances: Circumstances = field(default_factory=Circumstances)
    """What decided how fast a step was computed."""
    observations: Observations = field(default_factory=Observations)
    """What was noted in the script's processes."""
    traced: tuple[LinePart, ...] = ()
    """What each line took on the host and on the GPU in steps that were traced, with batches from memory; empty if none
    were."""
    with_workers: dict[int, MeasuredSteps] = field(default_factory=dict)
    """The steps with other numbers of persistent workers, each with a single thread."""
    whole_batches: MeasuredSteps | None = None
    """The steps with batches that are taken out of tensors in memory at once; None if not tried."""
    ranks: dict[int, "Measurement"] = field(default_factory=dict)
    """Every rank of a run under torchrun, including this one; empty for a single process."""
    crash: ScriptError | None = None
    """How the script crashed while it was measured; None if it did not."""
    machine: OtherLoad | None = None
    """What other programs used of the cores meanwhile; None for a measurement that was not taken here."""

    @property
    def table(self) -> MeasuredSteps:
        """The steps in which the time of each phase can be told apart."""
        return self.synchronized or self.steps

    @property
    def undisturbed_ms(self) -> float:
        """The milliseconds of a step: the mean, and on a busy machine those of the steps that it disturbed least.

        A trial gives the shortest of some passes. Beside those, the mean step of a busy machine is too long. A tenth of
        the steps are nearly as short as on a quiet one.
        """
        durations_s = sorted(self.steps.durations_s)
        if not durations_s or self.machine is None or not self.machine.busy:
            return self.steps.ms_a_step
        return durations_s[len(durations_s) // 10] * 1e3

    def user_paths(self, steps: MeasuredSteps, *phases: Phase) -> list[tuple[Path, float]]:
        """Return user-code frames and weight of each sample of the training thread in these steps and phases."""
        samples = self.observations.of(Role.TRAINING, steps.began_s, steps.ended_s)
        return [(self.observations.user_frames(each.stack), each.weight_s) for each in samples if each.phase in phases]
