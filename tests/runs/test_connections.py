"""All processes of a script are heard, wherever the folder of the run lies."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from workshop.probe.connection import ClosedError, Connection, connect
from workshop.probe.messages import TryCauses
from workshop.probe.settings import ProbeConfig
from workshop.runs.connections import MAX_PATH_BYTES, Connections


@pytest.fixture(params=["short", "long"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder; the path of a long one is more than that of a socket can be."""
    found = tmp_path / ("x" * MAX_PATH_BYTES if request.param == "long" else "x")
    found.mkdir()
    return found


def connected(connections: Connections) -> Connection:
    return connect(ProbeConfig("", connections.path))


def test_several_processes_are_heard_and_told(folder: Path) -> None:
    with closing(Connections(folder, several=True)) as connections:
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


def test_the_only_process_that_is_heard_hangs_up(folder: Path) -> None:
    with closing(Connections(folder, several=False)) as connections:
        only = connected(connections)
        only.send(TryCauses(("here",)))
        assert connections.receive(5.0) == TryCauses(("here",))
        with pytest.raises(OSError, match=r"refused|No such file"):
            connected(connections)
        only.close()
        with pytest.raises(ClosedError):
            connections.receive(5.0)
