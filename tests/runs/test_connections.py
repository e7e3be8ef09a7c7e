"""All processes of a script are heard."""

from contextlib import closing
from pathlib import Path

import pytest

from workshop.probe.connection import ClosedError, Connection, connect
from workshop.probe.messages import TryCauses
from workshop.probe.settings import ProbeConfig
from workshop.runs.connections import Connections


def connected(connections: Connections) -> Connection:
    return connect(ProbeConfig("", connections.path))


def test_several_processes_are_heard_and_told(tmp_path: Path) -> None:
    with closing(Connections(tmp_path, several=True)) as connections:
        one, other = connected(connections), connected(connections)
        for each, name in ((one, "one"), (other, "other")):
            each.send(TryCauses((name,)))
            each.send(TryCauses((name,)))
        heard = [connections.receive(5.0).causes[0] for _ in range(4)]
        assert sorted(heard) == ["one", "one", "other", "other"]
        connections.send(TryCauses(("go",)))
        late = connected(connections)
        late.send(TryCauses(("late",)))
        assert connections.receive(5.0) == TryCauses(("late",))
        assert [each.receive(5.0) for each in (one, other, late)] == [TryCauses(("go",))] * 3
        for each in (one, other, late):
            each.close()
        assert connections.receive(0.1) is None, "others may come"
    assert not Path(connections.path).exists()


def test_the_only_process_that_is_heard_hangs_up(tmp_path: Path) -> None:
    with closing(Connections(tmp_path, several=False)) as connections:
        only = connected(connections)
        only.send(TryCauses(("here",)))
        assert connections.receive(5.0) == TryCauses(("here",))
        with pytest.raises(OSError, match=r"refused|No such file"):
            connected(connections)
        only.close()
        with pytest.raises(ClosedError):
            connections.receive(5.0)
