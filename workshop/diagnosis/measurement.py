"""The measurement of a training script: its steps, as it is and otherwise, and what its processes did meanwhile."""

from dataclasses import dataclass, field

from workshop.diagnosis.lines import Path
from workshop.diagnosis.measured_steps import MeasuredSteps
from workshop.diagnosis.samples import Observations
from workshop.probe.messages import Circumstances
from workshop.probe.observations import Role
from workshop.probe.phases import Phase


@dataclass(frozen=True)
class Measurement:
    """The result of a measurement."""

    steps: MeasuredSteps
    """The steps of the script as it is."""
    synchronized: MeasuredSteps | None
    """The steps with a wait for the GPU at the border of each phase, so that its work counts to the phase that asked
    for it; None without a CUDA device."""
    headroom: MeasuredSteps | None
    """The steps with batches from memory; None if there could be none."""
    notes: tuple[str, ...]
    """What the figures do not say: why there is no headroom, what was not seen."""
    circumstances: Circumstances
    """What decided how fast a step was computed."""
    observations: Observations
    """What was noted in the script's processes."""
    with_workers: dict[int, MeasuredSteps] = field(default_factory=dict)
    """The steps with other numbers of workers, one thread each, which are kept from epoch to epoch."""
    ranks: dict[int, "Measurement"] = field(default_factory=dict)
    """Every rank of a run under torchrun, this one too; empty for a run of one process."""

    @property
    def table(self) -> MeasuredSteps:
        """The steps in which the time of each phase can be told apart."""
        return self.synchronized or self.steps

    def own_paths(self, steps: MeasuredSteps, *phases: Phase) -> list[tuple[Path, float]]:
        """Return the own frames and the weight of each sample of the thread that trains, in some steps and phases."""
        samples = self.observations.of(Role.TRAINING, steps.began_s, steps.ended_s)
        return [(self.observations.own(each.stack), each.weight_s) for each in samples if each.phase in phases]
