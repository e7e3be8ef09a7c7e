"""Marks the phases of a training as NVTX ranges, which Nsight Systems shows in its timeline."""

import torch

from workshop.probe.hooks import TrainingHooks
from workshop.probe.phases import Phase


def mark_phases() -> None:
    """Put a range around each phase of the training thread; the time between phases has none."""
    hooks = TrainingHooks()
    nvtx = torch.cuda.nvtx

    def enter(phase: Phase) -> None:
        nvtx.range_push(str(phase))

    def leave(_: Phase) -> None:
        nvtx.range_pop()

    hooks.clock.on_enter, hooks.clock.on_leave = enter, leave
    hooks.install()
