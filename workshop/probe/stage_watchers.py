"""What tries and watches causes inside a script, while a stage lasts that asks for it."""

from collections.abc import Callable

from workshop.probe.audience import Audience
from workshop.probe.backward_lines import BackwardLines
from workshop.probe.event_file import EventFile
from workshop.probe.listener import Listener, tell
from workshop.probe.messages import LookCloser, SetStage, TryCauses
from workshop.probe.model_calls import ModelCalls
from workshop.probe.trials import watchers_for
from workshop.probe.trials.kept_graphs import GraphLives
from workshop.probe.trials.watcher import Watcher


class StageWatchers(Listener):
    """Lets watchers hear of a stage, before all other listeners; of a compiled model, none.

    Args:
        events: where they note what they find.
        audience: what they are told by.
        models: the calls of models.
        step: returns the number of the present step.
    """

    def __init__(self, events: EventFile, audience: Audience, models: ModelCalls, step: Callable[[], int]) -> None:
        self._events, self._audience, self._models, self._step = events, audience, models, step
        self.goes_on_in_fork()

    def goes_on_in_fork(self) -> bool:
        """Begin in this process without any: those of the other one stay there."""
        self._watchers: list[Watcher] = []
        self._graphs: GraphLives | None = None
        return True

    def on_stage(self, stage: SetStage) -> None:
        """End the watchers of the stage before, and begin those of the next."""
        present, is_compiled = self._audience.listeners, self._models.is_compiled()
        tell([each for each in self._watchers if each in present], "end")  # others have given up
        others = tuple(each for each in present if each not in self._watchers)
        if self._graphs is None and not is_compiled:
            self._graphs = GraphLives(self._events)
            others = (self._graphs, *others)
        self._watchers = [] if is_compiled else self._begun(stage)
        self._audience.listeners = (*self._watchers, *others)

    def _begun(self, stage: SetStage) -> list[Watcher]:
        """Those of a stage; what cuts backward passes comes last, as nothing is to be tried in anomaly mode."""
        begun: list[Watcher] = []
        try:
            begun += watchers_for(stage.causes, self._events) if isinstance(stage, TryCauses) else ()
            if isinstance(stage, LookCloser) and not self._models.anomaly_mode:
                begun.append(BackwardLines(self._events, self._step))
        except Exception as error:
            self._events.lose(error)
        return begun
