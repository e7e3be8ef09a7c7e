"""Cuts backward passes into the lines of the forward pass that made their operations.

While torch's anomaly mode is on, each operation of the graph remembers the stack on which it was made. It is on
for single forward passes alone, since it costs time. What a backward pass takes is measured from one operation to the
next.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch
from torch import nn

from workshop.probe.backward_graph import BackwardGraph, roots_of
from workshop.probe.event_file import EventFile
from workshop.probe.observations import BackwardPass, WireFrame
from workshop.probe.trials.watcher import Watcher

_FRAME = re.compile(r'\s*File "(.*)", line (\d+), in (.*)')


class BackwardLines(Watcher):
    """Cuts those backward passes whose forward pass came after a call of `begin`.

    Args:
        events: where they are noted.
        step: returns the number of the present training step.
    """

    def __init__(self, events: EventFile, step: Callable[[], int] = lambda: 0) -> None:
        super().__init__(events)
        self._step, self._begun = step, False
        self._handles: list[Any] = []

    def before_model(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float) -> None:
        """Have the pass of the first model cut."""
        self.begin()

    def begin(self) -> None:
        """Have the operations of a forward pass remember where they were made."""
        if not self._begun and not torch.is_anomaly_enabled():
            torch.set_anomaly_enabled(True, check_nan=False)
            self._begun, self._depth = True, 0

    def end(self) -> None:
        """Give up what was begun, as it was before."""
        if self._begun:
            self._look_no_more()
            self._begun = False

    def _look_no_more(self) -> None:
        torch.set_anomaly_enabled(False)
        while self._handles:
            self._handles.pop().remove()

    def on_backward(self, tensors: Any) -> None:
        """Begin to measure the pass that is about to run, if it is not one inside of another, as of a checkpoint."""
        if not self._begun:
            return
        self._depth += 1
        if self._depth > 1:
            return
        self._look_no_more()
        nodes = BackwardGraph(roots_of(tensors)).nodes
        self._stacks = [_stack(node) for node in nodes]
        self._seconds: Counter[int] = Counter()
        self._present, self._since = -1, monotonic()
        enters = [self.guarded(partial(self._enter, number)) for number in range(len(nodes))]
        self._handles = [node.register_prehook(enter) for node, enter in zip(nodes, enters, strict=True)]

    def after_backward(self) -> None:
        """Note the pass."""
        if not self._begun:
            return
        self._depth -= 1
        if self._depth > 0:
            return
        self._account()
        self._look_no_more()
        seconds: Counter[tuple[WireFrame, ...]] = Counter()
        for number, each in self._seconds.items():
            seconds[self._stacks[number] if number >= 0 else ()] += each
        operations = Counter(self._stacks)
        self.events.write(
            BackwardPass,
            step=self._step(),
            operations=len(self._stacks),
            parts=tuple((seconds[stack], operations[stack], stack) for stack in seconds | operations),
        )
        self._begun = False

    def _enter(self, number: int, _: Any) -> None:
        """Account for the operation before, and go on to the one of this number."""
        self._account()
        self._present = number

    def _account(self) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        now = monotonic()
        self._seconds[self._present] += now - self._since  # type: ignore[assignment]
        self._since = now


def _stack(node: Any) -> tuple[WireFrame, ...]:
    """The stack on which an operation was made."""
    lines = node.metadata.get("traceback_", [])
    frames = [match for line in lines if (match := _FRAME.match(line))]
    return tuple((match[3].strip(), match[1], int(match[2])) for match in frames)
