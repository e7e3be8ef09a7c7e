"""What crosses between a script and the process that watches it arrives as it was sent."""

import math
import socket
from typing import Any

import pytest

from workshop.judge.ledger import as_event
from workshop.probe import wire
from workshop.probe.connection import ClosedError, Connection
from workshop.probe.events import Event, ForwardPass, PicturesDrawn, Signatures, StepTaken
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.messages import BatchCounts, Circumstances, LoadWith, StepReport, TryCauses
from workshop.probe.phases import Phase
from workshop.probe.settings import JudgedRun, ProbeConfig

FORWARD = ForwardPass(1.5, (2, 3), "float32", "cpu", False, Signatures((1, 2), b"1234"), (0, 1))


@pytest.mark.parametrize(
    "message",
    [
        ProbeConfig("/tmp/x", "/tmp/y", 2, JudgedRun("/photos/", None, 3)),
        ProbeConfig("/tmp/x", "/tmp/y"),
        StepReport(
            stage=LoadWith(LoaderSettings(4), trial=2),
            durations_us=(9, 8),
            ended_s=1.5,
            phases={str(phase): 0.5 for phase in Phase},
            samples=12,
            batches=BatchCounts(kept=1),
            circumstances=Circumstances("cuda"),
            backward_s=(1.25, 1.5),
            forwards=(1, 2),
        ),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_is_the_same_at_the_other_end(message: Any) -> None:
    assert wire.decode(wire.encode(message)) == message


@pytest.mark.parametrize(
    "event",
    [
        StepTaken(1.0, 2, 3, (FORWARD,), 1, (0.25, math.inf), frozenset([3])),
        PicturesDrawn(1.0, 2, 3, "RandomCrop", "00ff" * 8, 4),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_is_the_same_for_the_judge(event: Event) -> None:
    assert as_event(wire.encode(event)) == event


def test_messages_come_one_by_one_however_they_were_sent() -> None:
    ends = socket.socketpair()
    one, other = map(Connection, ends)
    assert one.receive(timeout_s=0) is None
    for number in range(3):
        other.send(TryCauses((f"ü{number}",)))
    ends[1].sendall(b'{"$": "TryCau')
    assert [one.receive().causes[0] for _ in range(3)] == ["ü0", "ü1", "ü2"]
    assert one.receive(timeout_s=0) is None
    ends[1].sendall(b'ses", "causes": ["late"]}\n')
    assert one.receive() == TryCauses(("late",))
    other.close()
    with pytest.raises(ClosedError):
        one.receive()
    with pytest.raises(ClosedError):
        one.send(TryCauses())
