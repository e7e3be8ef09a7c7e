"""Python's search for garbage, which stops a training: how often and how long, and how long without what stays anyway.

Only collections of the oldest generation go over all objects. They are timed while the steps are as they are, and tried
between two parts of a measurement.
"""

import gc
from collections.abc import Callable, Iterator
from statistics import median
from time import monotonic  # the script may replace that of the module
from typing import Any

from workshop.probe.cause import Moment, Results, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.messages import AsItIs, KeepBatches, SetStage, TryCauses
from workshop.probe.observations import WireFrame
from workshop.probe.phases import Phase
from workshop.probe.stack_sampler import user_stack_here
from workshop.probe.trials.trial_race import NothingToTryError, Pass
from workshop.probe.trials.watcher import Watcher, watches_for

OLDEST = len(gc.get_threshold()) - 1
"""The number of the generation that is collected with all younger ones."""

MIN_SHARE = 0.02
"""Share of the time, at least, that collections must take to be tried."""

GARBAGE_COLLECTOR = TriedCause(
    "garbage-collector",
    "Python's search for garbage stops the training ({about}) and goes over all objects that there are: call "
    "gc.freeze() once after the first step, which leaves out those of before. Where the script itself calls "
    "gc.collect(), do so less often, or not at all.",
    phases=tuple(Phase),
    moment=Moment.THROUGHOUT,
    results=Results.SAME,
    of_compiled=True,
)


@watches_for(GARBAGE_COLLECTOR)
class GarbagePauses(Watcher):
    """Times collections, and tries them once without the objects that there are by then."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._pauses: list[tuple[int, float]] = []  # the number of the step, and seconds
        self._stack: tuple[WireFrame, ...] = ()  # of the script's own call of gc.collect()
        self._is_timed, self._began_s, self._since_s = False, 0.0, 0.0
        self._timed: tuple[int, float] | None = None  # steps, and seconds
        self._callback = self.guarded(self._on_collection)
        gc.callbacks.append(self._callback)

    def end(self) -> None:
        """Time no more collections."""
        super().end()
        if self._callback in gc.callbacks:
            gc.callbacks.remove(self._callback)

    def on_stage(self, stage: SetStage) -> None:
        """Begin to time, or try what was timed."""
        if self._is_timed:
            self._timed = self.steps, monotonic() - self._since_s
        self._is_timed = isinstance(stage, AsItIs)
        if self._is_timed:
            self._pauses, self.steps, self._since_s = [], 0, monotonic()
        elif isinstance(stage, KeepBatches | TryCauses) and self._timed and not self.tried:
            self.tried.add(GARBAGE_COLLECTOR.name)
            self.end()
            self._attempt(*self._timed)

    def _on_collection(self, moment: str, about: dict[str, Any]) -> None:
        if not self._is_timed or about["generation"] != OLDEST:
            return
        if moment == "start":
            self._began_s = monotonic()
            if not (gc.isenabled() and gc.get_count()[0] > gc.get_threshold()[0] > 0):  # Python itself would not
                self._stack = user_stack_here()
        elif self._began_s:
            self._pauses.append((self.steps, monotonic() - self._began_s))

    def _attempt(self, steps: int, spent_s: float) -> None:
        paused_s = [seconds for _, seconds in self._pauses]
        if sum(paused_s) < MIN_SHARE * spent_s:
            return
        times = times_a_step([step for step, _ in self._pauses], steps)
        mean_ms = times * sum(paused_s) / len(paused_s) * 1e3
        about = f"{mean_ms:.1f} ms a step in the mean; {max(paused_s) * 1e3:.0f} ms at most"
        self.race(GARBAGE_COLLECTOR, _passes, about, self._stack, times, usual_s=median(paused_s))


def times_a_step(at: list[int], steps: int) -> float:
    """Return how often a step has what comes in a rhythm: once from one time to the next, or since the last.

    Args:
        at: the numbers of the steps that had it, from 0.
        steps: the number of steps that were watched.
    """
    if len(at) < 2:
        return len(at) / max(steps, 1)
    return (len(at) - 1) / max(at[-1] - at[0], steps - 1 - at[-1], 1)


def _passes() -> Iterator[Pass]:
    if gc.get_freeze_count():
        raise NothingToTryError("the script leaves objects out already")

    def collect(prepare: Callable[[], None]) -> None:
        prepare()
        gc.collect(OLDEST)

    try:
        yield lambda: collect(gc.unfreeze)
        yield lambda: collect(gc.freeze)
    finally:
        gc.unfreeze()
