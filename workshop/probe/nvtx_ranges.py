"""Marks the phases of a training as NVTX ranges, which Nsight Systems shows in its timeline."""

import torch

from workshop.probe.hooks import TrainingHooks


def mark_phases() -> None:
    """Put a range around each phase of the training thread; the time between phases has none.

    A torch that was built without CUDA has no ranges: it raises an exception, and the hooks are removed.
    """
    hooks = TrainingHooks()
    hooks.clock.on_enter = hooks.audience.guard(lambda phase: torch.cuda.nvtx.range_push(str(phase)))
    hooks.clock.on_leave = hooks.audience.guard(lambda _: torch.cuda.nvtx.range_pop())
    hooks.install()
