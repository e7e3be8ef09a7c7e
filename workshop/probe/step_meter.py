"""Times the steps of a training, for `workshop measure`. It changes nothing and keeps no evidence.

So any script can be measured, at little cost.
"""

import time
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from workshop.probe.connection import Connection
from workshop.probe.hooks import Listener, TrainingHooks, is_trained
from workshop.probe.messages import BatchCounts, SetStage, StepReport

REPORT_EVERY_S = 0.05
"""Steps shorter than this are reported together: reporting costs time, too."""


class StepMeter(Listener):
    """Sends a report of each step, or of some short ones: the time in each phase, and the number of samples."""

    def __init__(self, parent: Connection) -> None:
        self.parent = parent
        self.hooks = TrainingHooks(self)
        self.stage = "warm-up"
        self.model: nn.Module | None = None
        self.reported_s = time.monotonic()
        self.clear()

    def clear(self) -> None:
        """Begin to count for the next report."""
        self.steps = self.loaded = self.trained = 0
        self.batches = BatchCounts()

    def on_batch(self, batch: Any) -> None:
        """Count a batch."""
        self.batches.elsewhere += not self.hooks.clock.is_own_thread()
        if torch.is_grad_enabled():
            self.batches.training += 1
            self.loaded += count_samples(batch)
        else:
            self.batches.validation += 1

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Count the samples that enter the first model: those of a loop without a DataLoader."""
        if self.model is None and is_trained(module):
            self.model = module
        if module is self.model and torch.is_grad_enabled():
            self.trained += count_samples((inputs, options))

    def on_step_end(self, steps: int) -> None:
        """Count the step, and report if it is time for it."""
        self.steps += steps
        if time.monotonic() - self.reported_s > REPORT_EVERY_S:
            self.report()

    def report(self) -> None:
        """Report the steps since the last report, and go on to another stage if the parent asks for it."""
        store = self.hooks.batches
        self.batches.kept, self.batches.from_memory = store.kept, store.replayed
        store.kept = store.replayed = 0
        phases = self.hooks.clock.cut()
        samples = self.loaded or self.trained
        device = "cuda" if torch.cuda.is_initialized() else "cpu"
        self.parent.send(StepReport(self.stage, self.steps, phases, samples, self.batches, device))
        self.reported_s = time.monotonic()
        self.clear()
        while isinstance(message := self.parent.receive(timeout_s=0), SetStage):
            self.stage = message.stage
            self.hooks.clock.synchronize = self.stage == "synchronized"
            store.keeping, store.replaying = self.stage == "keep", self.stage == "replay"


def count_samples(batch: Any) -> int:
    """Return the length of the first tensor in a batch; 0 if there is none."""
    for leaf in tree_leaves(batch):
        inside = [leaf] if isinstance(leaf, torch.Tensor) else tree_leaves(getattr(leaf, "__dict__", None))
        for tensor in inside:
            if isinstance(tensor, torch.Tensor) and tensor.ndim:
                return len(tensor)
    return 0
