"""Watches which calls of models build a graph that no backward pass goes through, and tries them without it.

Whether a pass goes through an output is told by a hook on the operation that has made it, which keeps nothing alive.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn

from workshop.probe.cause import Moment, Results, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.internals import frame_above, tree_leaves
from workshop.probe.observations import WireFrame
from workshop.probe.phases import Phase
from workshop.probe.stack_sampler import user_stack_here
from workshop.probe.trials.copies import copied_call
from workshop.probe.trials.trial_race import Pass
from workshop.probe.trials.watcher import Watcher, watches_for
from workshop.probe.user_names import name_in

MIN_CALLS = 3
"""Calls from a line, at least, that were in no backward pass, and never one that was, if it needs no graph."""

CallSite: TypeAlias = tuple[nn.Module, tuple[WireFrame, ...]]
"""A module, and the user's frames of its call."""


@dataclass
class _WatchedCall:
    place: CallSite
    step: int
    is_reached: bool = False

    def reach(self, *_: Any) -> None:
        """A backward pass goes through what this call has made."""
        self.is_reached = True


UNUSED_GRAPH = TriedCause(
    "unused-graph",
    "This call of {about} builds a graph that no backward pass went through while it was watched: if none ever "
    "does, call it under torch.no_grad().",
    phases=(Phase.FORWARD,),
    moment=Moment.WATCHING,
    results=Results.SAME,
    group="calls for a metric",
)


@watches_for(UNUSED_GRAPH)
class OutputUse(Watcher):
    """Watches the calls of models."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._calls: list[_WatchedCall] = []
        self._reached: set[CallSite] = set()
        self._in_vain: Counter[CallSite] = Counter()
        self._place: CallSite | None = None

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Try a call without a graph, if it is known by now that nobody goes through it."""
        self._place = None
        if not torch.is_grad_enabled():
            return
        place = self._place = module, user_stack_here()
        if self._in_vain[place] < MIN_CALLS or place in self._reached or place in self.tried:
            return
        self.tried.add(place)

        def passes() -> Iterator[Pass]:
            copied, given, named = copied_call(module, inputs, options, times=2)

            def call(with_graph: bool) -> torch.Tensor:
                with torch.set_grad_enabled(with_graph):
                    outputs = [each for each in tree_leaves(copied(*given, **named)) if isinstance(each, torch.Tensor)]
                return torch.cat([each.detach().flatten().float() for each in outputs])

            yield lambda: call(True)
            yield lambda: call(False)

        times = self._in_vain[place] / max(self.steps - 1, 1)
        name = name_in(frame_above(0), module)
        self.race(UNUSED_GRAPH, passes, about=name, stack=place[1], times=times)

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """Note whether the graph of a call will be gone through."""
        if self._place is None:
            return
        call = _WatchedCall(self._place, self.steps)
        self._place = None
        nodes = [each.grad_fn for each in tree_leaves(output) if isinstance(each, torch.Tensor) and each.grad_fn]
        for node in nodes:
            node.register_prehook(call.reach)
        self._calls += [call] * bool(nodes)

    def on_step_end(self, steps: int) -> None:
        """A step is over: what was made before the last one, and not gone through, is gone through by nobody."""
        self._reached.update(each.place for each in self._calls if each.is_reached)
        old = [each for each in self._calls if each.step < self.steps and not each.is_reached]
        self._in_vain.update(each.place for each in old)
        self._calls = [each for each in self._calls if each.step == self.steps]
        super().on_step_end(steps)
