"""What torch's allocator of a GPU does while the steps are as they are: memory given back, and kept without use."""

from workshop.probe.allocator_use import allocator_use, said_of
from workshop.probe.cause import Moment, TriedCause
from workshop.probe.event_file import EventFile
from workshop.probe.messages import AsItIs, SetStage
from workshop.probe.observations import AllocatorUse, Noticed
from workshop.probe.trials.watcher import Watcher, watches_for

ALLOCATOR = TriedCause(
    "allocator", "The GPU's allocator {about}.", phases=(), moment=Moment.THROUGHOUT, of_compiled=True
)


@watches_for(ALLOCATOR)
class AllocatorCounts(Watcher):
    """Compares the allocator's own counts before the measured steps and after them."""

    def __init__(self, events: EventFile) -> None:
        super().__init__(events)
        self._before: AllocatorUse | None = None

    def on_stage(self, stage: SetStage) -> None:
        """Begin to count, or note what there was."""
        now = allocator_use()
        if self._before and now and (about := said_of(now.since(self._before), self.steps)):
            self.events.write(Noticed, name=ALLOCATOR.name, about=about)
        self._before, self.steps = now if isinstance(stage, AsItIs) else None, 0
