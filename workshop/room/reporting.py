"""Tells the room how a check ended, if the participant has joined one; a check never fails because of it."""

import math
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten

import msgspec

from workshop.course.kept_checks import KeptCheck
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.judge.reasons import MASK
from workshop.judge.verdict import HALF_DONE, Outcome
from workshop.room.membership import Membership, write_whole
from workshop.room.posts import RoomReport
from workshop.room.room_client import AnsweredNoError, RoomClient, UnreachableError

WITHIN_S = 2.0
"""Seconds, at most, that a command waits for the room."""

WHAT_IS_SENT = (
    "From now on, each `workshop check` and `workshop hint` in this folder tells the room: the part, how it ended, the "
    "speedup with its interval and that of the solution, why it was refused (in the workshop's own words), how many "
    "hints you have seen, and what this machine is (processor, cores, memory, system, GPUs). Never your code, never a "
    "path, never the name of the machine."
)


class Outbox:
    """The reports that wait beside a state: a file for each, until the room has acknowledged it."""

    def __init__(self, state: State) -> None:
        self.folder = state.path.with_name("outbox")

    def put(self, report: RoomReport) -> None:
        """Keep a report until it is sent.

        Raises:
            OSError: it cannot be kept; nothing of it is left.
        """
        if (waiting := len(self._paths())) >= 1000:  # a workshop has a few dozen
            raise OSError(f"{waiting} reports wait already")
        write_whole(self._path(report), msgspec.json.encode(report))

    def waiting(self) -> list[RoomReport]:
        """Return the reports that wait, the oldest first; a damaged file is deleted."""
        reports = []
        for path in self._paths():
            try:
                reports.append(msgspec.json.decode(path.read_bytes(), type=RoomReport))
            except FileNotFoundError:
                continue  # another check has sent it meanwhile
            except msgspec.DecodeError:
                path.unlink(missing_ok=True)
        return sorted(reports, key=lambda report: report.at)

    def remove(self, report: RoomReport) -> None:
        """Forget a report that the room has."""
        self._path(report).unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget all."""
        for path in self._paths():
            path.unlink(missing_ok=True)

    def _path(self, report: RoomReport) -> Path:
        return self.folder / f"{report.id}.json"

    def _paths(self) -> list[Path]:
        return list(self.folder.glob("*.json"))


@dataclass
class Sent:
    """What became of the reports that waited."""

    sent: int = 0
    waiting: int = 0
    problems: list[str] = field(default_factory=list)
    """Why something was not sent, each a sentence."""

    @property
    def line(self) -> str:
        """What a participant is told; "" for nothing."""
        if self.problems:
            wait = f"; {_results(self.waiting)} to be sent, with the next command" if self.waiting else ""
            return f"the room: {'; '.join(self.problems)}{wait}"
        return (
            "" if not self.sent else "sent to the room" if self.sent == 1 else f"{self.sent} results sent to the room"
        )


def report_check(state: State, check: KeptCheck) -> str:
    """Tell the room of a check, and return what the participant is told of it; "" for one who has not joined."""
    speed = check.speed
    fits = speed is not None and 0 < speed.low <= speed.ratio <= speed.high <= 1e6
    figures = {"ratio": speed.ratio, "low": speed.low, "high": speed.high} if speed and fits else {}
    report = RoomReport(
        id=secrets.token_hex(16),
        kind="check",
        part=check.part,
        at=time.time(),
        hints=_hints(state, check.part),
        outcome="half done" if check.state == HALF_DONE else check.outcome.value,
        **figures,
        solution_ratio=speed.solution_ratio if speed else None,
        reason="" if check.outcome is Outcome.DONE else shorten(check.told, 200, placeholder=MASK),
        machine=_machine(check),
    )
    return _report(state, report)


def report_hint(state: State, part: str) -> str:
    """Tell the room that a hint was read; return as `report_check` does."""
    report = RoomReport(secrets.token_hex(16), "hint", part, time.time(), _hints(state, part))
    return _report(state, report)


def send_waiting(state: State) -> Sent:
    """Send what waits, within `WITHIN_S`; what has not been acknowledged by then goes on waiting."""
    outbox = Outbox(state)
    result = Sent(waiting=len(outbox.waiting()))
    if not result.waiting:
        return result
    try:
        membership = Membership.beside(state)
    except WorkshopError as error:
        return Sent(waiting=result.waiting, problems=[str(error)])
    if membership is None:
        return Sent()
    finished = threading.Event()

    def work() -> None:
        try:
            _send(outbox.waiting(), membership, result, time.monotonic() + WITHIN_S, outbox.remove)
        finally:
            finished.set()

    threading.Thread(target=work, daemon=True).start()  # because the look-up of a host's name takes no time limit
    if not finished.wait(WITHIN_S):
        return Sent(result.sent, len(outbox.waiting()), [f"no answer within {WITHIN_S:g} s"])
    return result


def _report(state: State, report: RoomReport) -> str:
    """Keep a report and send it with those that wait; where it cannot be kept, send it alone."""
    try:
        membership = Membership.beside(state)
    except WorkshopError as error:
        return str(error)
    if membership is None:
        return ""
    try:
        Outbox(state).put(report)
    except OSError as error:
        result, kept = Sent(waiting=1), f"kept for later in {Outbox(state).folder}: {error.strerror or error}"
        _send([report], membership, result)
        return f"the room: {result.problems[0]}; and this result cannot be {kept}" if result.problems else result.line
    return send_waiting(state).line


def _send(
    reports: Sequence[RoomReport],
    membership: Membership,
    result: Sent,
    until_s: float = math.inf,
    remove: Callable[[RoomReport], None] = lambda _: None,
) -> None:
    """Send reports, one after the other, and note in `result` what became of them; `remove` those that are answered."""
    try:
        client = RoomClient(membership.address, membership.certificate, WITHIN_S)
    except WorkshopError as error:
        result.problems.append(str(error))
        return
    for report in reports:
        if time.monotonic() > until_s:
            break
        try:
            client.send(report, membership.token)
            result.sent += 1
        except UnreachableError as error:
            result.problems.append(f"no answer from {membership.address} ({error})")
            break
        except AnsweredNoError as error:
            result.problems.append(str(error))
            if error.status in (401, 403):
                break  # it is about the participant, not about this report
        remove(report)
        result.waiting -= 1
    client.close()


def _results(count: int) -> str:
    return "1 result waits" if count == 1 else f"{count} results wait"


def _hints(state: State, part: str) -> int:
    return min(int(state.get("parts", part, "hints") or 0), 20)


def _machine(check: KeptCheck) -> str:
    machine = check.machine
    memory = f"{machine.memory_bytes / 2**30:.0f} GiB"
    gpus = ", ".join(machine.gpus) or "no NVIDIA GPU"
    text = f"{machine.processor}, {machine.usable_cores} cores, {memory}, {machine.system}, {gpus}"
    return "".join(each for each in text if each.isprintable())[:300]
