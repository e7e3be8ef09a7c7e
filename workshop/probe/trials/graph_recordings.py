"""Counts the CUDA graphs that a script records while its steps are as they are: each is of one shape of its inputs."""

import os
from collections import Counter
from typing import Any

import torch

from workshop.probe.cause import Moment, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.messages import AsItIs, SetStage
from workshop.probe.observations import Noticed
from workshop.probe.replaced_function import replace_function
from workshop.probe.stack_sampler import user_stack_here
from workshop.probe.trials.watcher import ENOUGH, Watcher, watches_for

RECORDED_GRAPHS = TriedCause(
    "recorded-graphs",
    "CUDA graphs are recorded anew {about}, as one is of one shape of its inputs.",
    phases=(),
    moment=Moment.THROUGHOUT,
    of_compiled=True,
)


@watches_for(RECORDED_GRAPHS)
class GraphRecordings(Watcher):
    """Hears of each recording by `torch.cuda.graph`, which torch itself uses for compiled models, too."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._is_measured, self._at = False, Counter[str]()  # by the line of the script; "" if it is not known
        begin, note = torch.cuda.graph.__enter__, self.guarded(self._on_recording)

        def noted(graph: Any) -> None:
            note()
            begin(graph)

        self._put_back = replace_function(torch.cuda.graph, "__enter__", noted)

    def end(self) -> None:
        """Hear of no more."""
        super().end()
        self._put_back()

    def on_stage(self, stage: SetStage) -> None:
        """Begin to count, or note what was counted."""
        count = self._at.total()
        if count >= ENOUGH:
            (line, _), *_ = self._at.most_common(1)
            where = f", most of them in {line}" if line else ""
            about = f"{count} times in {self.steps} measured steps{where}"
            self.events.write(Noticed, name=RECORDED_GRAPHS.name, about=about)
        self._is_measured, self.steps, self._at = isinstance(stage, AsItIs), 0, Counter()

    def _on_recording(self) -> None:
        if self._is_measured:
            stack = user_stack_here()
            self._at[f"{os.path.basename(stack[-1][1])}:{stack[-1][2]}" if stack else ""] += 1
