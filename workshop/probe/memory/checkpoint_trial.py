"""Tries checkpoints around the blocks of a model, on a copy: the peak of a pass with and without."""

import math
import warnings
from collections.abc import Callable
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from workshop.probe.event_file import EventFile
from workshop.probe.log import log
from workshop.probe.memory.allocator_events import AllocatorEvents
from workshop.probe.memory.memory_notes import MemoryTrial
from workshop.probe.memory.segment_table import highest
from workshop.probe.memory.segments import Segments
from workshop.probe.messages import SetStage, TryCheckpoints
from workshop.probe.model_calls import ModelCalls
from workshop.probe.trials.copies import (
    copied_arguments,
    copied_model,
    ensure_room,
    forward_and_backward,
    of_one_process,
)
from workshop.probe.trials.trial_race import NothingToTryError, random_states_kept, why_not
from workshop.probe.trials.watcher import Watcher

MIN_BLOCKS = 3
"""Parts of a list of modules, at least, that are blocks."""

TIMES_MODEL = 4
"""The memory of a trial, in that of the parameters: a copy, its gradients, and a pass."""


class CheckpointTrial(Watcher):
    """Tries them once with a call of the first model that is trained, when a stage asks for it."""

    def __init__(self, events: EventFile, segments: Segments, models: ModelCalls) -> None:
        super().__init__(events)
        self._segments, self._models, self._is_wanted = segments, models, False

    def on_stage(self, stage: SetStage) -> None:
        """Try it in this stage, or not."""
        self._is_wanted = isinstance(stage, TryCheckpoints)

    def before_model(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float) -> None:
        """Try it: the copies are no part of a recorded step."""
        if self._is_wanted and self._segments.name is None and not self._models.is_compiled():
            self._is_wanted = False
            try_checkpoints(module, inputs, options, self.events)


def try_checkpoints(model: nn.Module, inputs: Any, options: Any, events: EventFile) -> None:
    """Measure both passes, and note what came of it, unless one fails: that says nothing of the script."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    try:
        with warnings.catch_warnings(), random_states_kept():
            warnings.simplefilter("ignore")
            ensure_room(model.parameters(), TIMES_MODEL)
            copied = copied_model(of_one_process(model))
            given, named = copied_arguments(inputs, options)
            before = _peak(lambda: forward_and_backward(copied, given, named), device, events)
            _wrap_blocks(copied)
            after = _peak(lambda: forward_and_backward(copied, given, named), device, events)
    except Exception as error:  # models that cannot be copied fail in many ways
        log(f"checkpoints cannot be tried: {why_not(error)}")
        return
    sizes = {"as_it_is_bytes": before[0], "changed_bytes": after[0]}
    times = {"as_it_is_s": before[1], "changed_s": after[1]}
    events.write(MemoryTrial, device=str(device), about=type(model).__name__, **sizes, **times)


def _peak(run: Callable[[], object], device: torch.device, events: EventFile) -> tuple[int, float]:
    """Run a pass twice; return the most that the second one has allocated on a device, and its seconds.

    Raises:
        NothingToTryError: nobody tells what is allocated.
    """
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before, begin = torch.cuda.memory_allocated(device), monotonic()
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before, monotonic() - begin
    allocator = AllocatorEvents(events)
    allocator.begin()
    begin = monotonic()
    run()
    spent_s = monotonic() - begin
    changes = allocator.end()
    if changes is None:
        raise NothingToTryError("the script profiles itself")
    return highest([(0, 0), *changes])[1], spent_s


def _wrap_blocks(model: nn.Module) -> None:
    """Put a checkpoint around each block of the longest list of modules, or around several in a row of a sequence.

    Raises:
        NothingToTryError: there is no such list.
    """
    lists = [each for each in model.modules() if isinstance(each, nn.Sequential | nn.ModuleList)]
    longest = max(lists, key=len, default=None)
    if longest is None or len(longest) < MIN_BLOCKS:
        raise NothingToTryError("it has no blocks")
    if isinstance(longest, nn.ModuleList):
        for each in longest:
            each.forward = _checkpointed(each.forward)
        return
    together = math.ceil(math.sqrt(len(longest)))
    parts = [longest[begin : begin + together] for begin in range(0, len(longest), together)]
    calls = [_checkpointed(part.forward) for part in parts[:-1]] + [parts[-1].forward]

    def forward(given: Any) -> Any:
        for call in calls:
            given = call(given)
        return given

    longest.forward = forward


def _checkpointed(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **options: checkpoint(function, *args, use_reentrant=False, **options)
