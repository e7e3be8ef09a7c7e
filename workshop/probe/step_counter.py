"""Tells where one training step ends and the next one begins."""

from collections import Counter
from time import monotonic  # the script may replace that of the module

from torch.optim.optimizer import Optimizer

from workshop.probe.messages import StepUnit

LEADER_IDLE_STEPS = 5
"""If other optimizers take this many steps without one of its own, the leading optimizer is no longer in use."""

MIN_PASSES = 5
PATIENCE_S = 10.0
"""Backward passes are counted as steps after this many of them and seconds, and batches after twice as many seconds, if
nothing above them in `StepUnit` was seen."""

MAX_CLOSURE_PASSES = 4
"""An optimizer that asks for more backward passes in one step, as LBFGS does, repeats those."""


class StepCounter:
    """Counts the training steps of a process.

    A step ends with the step of one optimizer of torch, the first to step: what others do in between belongs to it. A
    script may update its weights by hand, or use an optimizer of its own; or only evaluate a model. Its steps are then
    what its loop repeats, backward passes or batches, as soon as it is clear that nothing else comes.

    Attributes:
        unit: what is counted; None as long as that is not known.
    """

    def __init__(self) -> None:
        self.unit: StepUnit | None = None
        self.leader: Optimizer | None = None
        self._steps_of_others = 0
        self._closure_passes = 0  # in the present step of an optimizer
        self._repeats_closure = False
        self._seen: Counter[StepUnit] = Counter()
        self._first_s: dict[StepUnit, float] = {}

    def optimizer_begins(self, optimizer: Optimizer) -> bool:
        """Note that an optimizer is about to step; return whether it is the first one."""
        self._closure_passes = 0
        if self.leader is not None:
            return False
        self.leader = optimizer
        return True

    def optimizer_stepped(self, optimizer: Optimizer) -> int:
        """Return the number of training steps that end with this step of an optimizer."""
        if self._repeats_closure:
            return 0
        self.unit = StepUnit.OPTIMIZER
        if optimizer is self.leader:
            self._steps_of_others = 0
            return 1
        self._steps_of_others += 1
        if self._steps_of_others < LEADER_IDLE_STEPS:
            return 0
        self.leader, self._steps_of_others = optimizer, 0
        return LEADER_IDLE_STEPS

    def backward_ended(self, in_optimizer: bool) -> int:
        """Return the number of training steps that end with a backward pass, which an optimizer may have asked for."""
        self._closure_passes += in_optimizer
        if self._closure_passes > MAX_CLOSURE_PASSES:
            self.unit, self._repeats_closure = StepUnit.BACKWARD, True
        return self._repeated(StepUnit.BACKWARD, PATIENCE_S)

    def batch_came(self) -> int:
        """Return the number of training steps that end as a batch is handed out."""
        return self._repeated(StepUnit.BATCH, 2 * PATIENCE_S)

    def _repeated(self, unit: StepUnit, patience_s: float) -> int:
        """Take a unit once it has come often enough with nothing above it, or at once in place of a lower one."""
        if self.unit is StepUnit.OPTIMIZER:
            return 0
        if self.unit is None:
            self._seen[unit] += 1
            waited_s = monotonic() - self._first_s.setdefault(unit, monotonic())
            above = sum(self._seen[each] for each in _UNITS[: _UNITS.index(unit)])
            if not above and self._seen[unit] >= MIN_PASSES and waited_s > patience_s:
                self.unit = unit
        elif _UNITS.index(unit) < _UNITS.index(self.unit):
            self.unit = unit
        return int(self.unit is unit)


_UNITS = list(StepUnit)
