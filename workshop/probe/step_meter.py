"""Times the steps of a training, reports them to the process that measures, and hears from it of the next stage."""

import os
from contextlib import suppress
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch
from torch import distributed, nn

from workshop.probe.batch_meter import BatchMeter
from workshop.probe.connection import Connection, connect
from workshop.probe.hooks import TrainingHooks
from workshop.probe.listener import Listener
from workshop.probe.log import log
from workshop.probe.messages import Circumstances, ProbeFault, SetStage, StepReport, StepUnit, WarmUp
from workshop.probe.model_calls import ModelCalls
from workshop.probe.phases import Phase
from workshop.probe.process_end import at_process_end
from workshop.probe.settings import ProbeConfig

REPORT_EVERY_S = 0.05
"""Seconds, at least, from one report to the next, as reporting costs time: shorter steps are reported together."""


class StepMeter(Listener):
    """Sends a report of each step, or of some short ones.

    Args:
        config: where to.
        hooks: what cuts the steps into phases, and is told of stages.
        models: the calls of models.
        batches: the batches.

    Attributes:
        parent: the connection to the process that measures; None before the first report.
    """

    def __init__(self, config: ProbeConfig, hooks: TrainingHooks, models: ModelCalls, batches: BatchMeter) -> None:
        self._config, self._hooks, self._models, self._batches = config, hooks, models, batches
        self._is_forked = False
        self._begin()

    def _begin(self) -> None:
        self.parent: Connection | None = None
        self._stage: SetStage = WarmUp()
        self._unit = StepUnit.OPTIMIZER
        self._pid = os.getpid()
        self._reported_s = self._stepped_s = self._backward_s = monotonic()
        self._first_step = self._forwards = 0
        self._clear()

    def _clear(self) -> None:
        """Begin to count for the next report."""
        self._steps: list[tuple[int, float, int]] = []  # of each: microseconds, the last backward pass, and calls
        self._batches.clear()

    @property
    def step(self) -> int:
        """The number of the present step."""
        return self._first_step + len(self._steps)

    def on_begin(self) -> None:
        """Have the last steps reported, too."""
        at_process_end(self._end)

    def goes_on_in_fork(self) -> bool:
        """Measure this process by itself."""
        self._begin()
        self._is_forked = True
        return True

    def on_fault(self, fault: str) -> None:
        """Tell the process that measures why there will be no more reports."""
        if self.parent:
            self.parent.send(ProbeFault(fault))

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Count the calls of models that the script itself makes."""
        self._forwards += self._hooks.clock.phase != Phase.FORWARD

    def on_backward(self, tensors: Any) -> None:
        """Note when the pass begins."""
        self._backward_s = monotonic()

    def on_step_end(self, steps: int) -> None:
        """Count the step, and report if it is time for it."""
        now, unit = monotonic(), self._hooks.steps.unit
        if unit not in (None, self._unit):  # what was counted so far were no steps
            self._unit = unit
            log(f"a training step is the {unit}")
            self._clear()
            self._hooks.clock.cut(now)
            self._stepped_s, self._forwards = now, 0
            return
        duration_us = round((now - self._stepped_s) / steps * 1e6)
        self._steps += [(duration_us, self._backward_s, self._forwards // steps)] * steps
        self._stepped_s, self._forwards = now, 0
        if now - self._reported_s > REPORT_EVERY_S:
            self.report()

    def report(self) -> None:
        """Report the steps since the last report, and go on to another stage if the parent asks for it.

        Raises:
            OSError: nobody can be reached.
        """
        if self.parent is None:
            self.parent = connect(self._config)
        durations_us, backward_s, forwards = zip(*self._steps, strict=True)
        self.parent.send(
            StepReport(
                stage=self._stage,
                durations_us=durations_us,
                ended_s=self._stepped_s,
                phases=self._hooks.clock.cut(self._stepped_s),
                circumstances=self._circumstances(),
                pid=os.getpid(),
                rank=rank_here(),
                unit=str(self._unit),
                first_step=self._first_step,
                backward_s=backward_s,
                forwards=forwards,
                **self._batches.take(),
            )
        )
        self._first_step = self.step
        self._reported_s = monotonic()
        self._clear()
        while isinstance(message := self.parent.receive(timeout_s=0), SetStage):
            self._stage = message
            self._hooks.begin_stage(message)

    def _end(self) -> None:
        """Report the last steps as the process ends."""
        if self._steps and os.getpid() == self._pid:
            with suppress(OSError):
                self.report()

    def _circumstances(self) -> Circumstances:
        """Return what decides how fast a step is computed."""
        model = self._models.model
        parameter = next(model.parameters(), None) if model is not None else None
        return Circumstances(
            device="cuda" if torch.cuda.is_initialized() else "cpu",
            threads=torch.get_num_threads(),
            double=parameter is not None and parameter.dtype == torch.float64,
            anomaly_mode=self._models.anomaly_mode,
            compiled=self._models.is_compiled(),
            forked=self._is_forked,
            distributed=distributed.is_available() and distributed.is_initialized(),
        )


def rank_here() -> int | None:
    """Return the rank of this process among those of this machine, or in its process group; None without ranks."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return None
