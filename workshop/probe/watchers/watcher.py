"""What looks closely at some steps of a training."""

from workshop.probe.event_file import EventFile
from workshop.probe.listener import Listener


class Watcher(Listener):
    """Hears of the steps from when it is made until its end, and notes what it finds."""

    def __init__(self, events: EventFile) -> None:
        self.events = events

    def end(self) -> None:
        """Note what is known only now, and undo what was changed in the script."""
