"""Watches whether the graphs of losses live on after their steps, as where a loss is added to a sum as it is.

Something small is put into the notes of each graph's last operation: it is gone as soon as the operation is.
"""

import gc
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any
from weakref import ref

import torch

from workshop.probe.backward_graph import roots_of
from workshop.probe.cause import Moment, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.internals import frame_above
from workshop.probe.messages import SetStage
from workshop.probe.observations import Noticed
from workshop.probe.stack_sampler import user_stack_here
from workshop.probe.trials.watcher import Watcher, watches_for
from workshop.probe.user_names import name_in

MIN_GRAPHS = 6
"""Graphs, at least, that must be kept: one or two may belong to the present step."""

MAX_MARKS = 64
"""Losses, at most, that are watched: of more, only every other one is, and of those to come."""


class _Mark:
    """What is gone with a graph."""

    def __init__(self, loss: torch.Tensor) -> None:
        self.loss = ref(loss)


KEPT_GRAPHS = TriedCause(
    "kept-graphs",
    "The losses of {about} are kept with their graphs{setting} and take memory: keep loss.item(), or loss.detach().",
    phases=(),
    moment=Moment.THROUGHOUT,
)


@watches_for(KEPT_GRAPHS)
class GraphLives(Watcher):
    """Watches losses from all over the run, and notes now and then how many are kept, if they are many."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._marks: list[Callable[[], _Mark | None]] = []
        self._seen, self._every = 0, 1

    def on_stage(self, stage: SetStage) -> None:
        """Note what there is by now."""
        self.end()

    def end(self) -> None:
        """Note how many of the losses are still kept, if they are many."""
        kept = [mark for each in self._marks if (mark := each()) is not None]
        if len(kept) >= max(MIN_GRAPHS, len(self._marks) // 2):
            place = _place_of(mark.loss() for mark in kept)
            about = f"{len(kept)} of {len(self._marks)} watched backward passes{self._at}"
            self.events.write(Noticed, name=KEPT_GRAPHS.name, about=about, setting=place and f", in {place},")

    def on_backward(self, tensors: Any) -> None:
        """Mark the graph of a loss."""
        self._seen += 1
        if self._seen % self._every:
            return
        if len(self._marks) == MAX_MARKS:
            self.end()  # the script may go on without another stage
            self._marks, self._every = self._marks[1::2], 2 * self._every
        for each in roots_of(tensors)[:1]:
            mark = _Mark(each)
            each.grad_fn.metadata["workshop"] = mark
            self._marks.append(ref(mark))
            frames = user_stack_here()
            self._at = f" (line {frames[-1][2]})" if frames else ""


def _place_of(losses: Iterable[torch.Tensor | None]) -> str:
    """Return the name of a list or of something like it that holds one of these losses; empty if none is found."""
    for loss in losses:
        holders = gc.get_referrers(loss) if loss is not None else []
        for each in holders:
            if isinstance(each, list | deque) and (name := name_in(frame_above(0), each)) != type(each).__name__:
                return name
    return ""
