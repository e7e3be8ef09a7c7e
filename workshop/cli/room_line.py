"""The line that says what was sent to the room; nothing for those who have not joined one, and nothing is loaded."""

from typing import TYPE_CHECKING

from workshop.cli.output import say
from workshop.course.state import State

if TYPE_CHECKING:
    from workshop.course.kept_checks import KeptCheck


def tell_check(state: State, check: "KeptCheck") -> None:
    """Send how a check ended."""
    if _has_joined(state):
        from workshop.room.reporting import report_check

        _say(report_check(state, check))


def tell_hint(state: State, part: str) -> None:
    """Send that a hint was read."""
    if _has_joined(state):
        from workshop.room.reporting import report_hint

        _say(report_hint(state, part))


def tell_waiting(state: State) -> None:
    """Send what waits since the room did not answer, if anything does."""
    if _has_joined(state):
        from workshop.room.reporting import send_waiting

        _say(send_waiting(state).line)


def _has_joined(state: State) -> bool:
    from workshop.room.membership import path_beside

    return path_beside(state).exists()


def _say(line: str) -> None:
    if line:
        say(line)
