"""What fits into the memory, and into /dev/shm."""

from dataclasses import replace
from unittest.mock import Mock

from made_measurements import made_steps

from workshop.probe.loader_settings import LoaderSettings
from workshop.tuning.script_memory import MemoryRoom, ScriptMemory, size
from workshop.tuning.tried_settings import TriedSetting

ROOM = MemoryRoom(limit_bytes=10e9, used_bytes=2e9, worker_bytes=1e9, batch_bytes=20e6, shared_free_bytes=200_000_000)


def test_more_workers_than_there_is_memory_for() -> None:
    assert ROOM.why_not(LoaderSettings(2)) == ""
    room = replace(ROOM, shared_free_bytes=None)
    assert room.why_not(LoaderSettings(9)) == "would need 11.4 GB of memory, and 10.0 GB are allowed"


def test_what_a_worker_needs_is_learnt() -> None:
    """Two workers took 3 GB together with the training, and the larger one had 100 MB of its own."""
    tried = TriedSetting(LoaderSettings(2), [1.0], memory_bytes=3_000_000_000)
    room = replace(ROOM, shared_free_bytes=None).after(tried, 100_000_000)
    assert room.memory(LoaderSettings(2)) == 3e9
    assert room.memory(LoaderSettings(12)) == 3e9 + 10 * 100e6 + 20 * 20e6
    assert room.why_not(LoaderSettings(12)) == ""


def test_batches_on_their_way_must_fit_into_shared_memory() -> None:
    """64 MB, as a container has, hold three batches of 20 MB."""
    room = replace(ROOM, shared_free_bytes=64_000_000)
    assert room.why_not(LoaderSettings(0)) == ""
    assert room.why_not(LoaderSettings(1)) == "needs 80 MB of /dev/shm, which has 64 MB"
    assert ROOM.why_not(LoaderSettings(4, prefetch_factor=4)) == "needs 360 MB of /dev/shm, which has 200 MB"


def test_each_rank_has_its_workers() -> None:
    both = replace(ROOM, ranks=2)
    assert both.shared(LoaderSettings(2)) == 2 * ROOM.shared(LoaderSettings(2))
    assert both.memory(LoaderSettings(2)) - 2e9 == 2 * (ROOM.memory(LoaderSettings(2)) - 2e9)


def test_what_is_allowed_is_the_limit() -> None:
    script = Mock(process=None, trainers={})
    assert ScriptMemory(script, made_steps({}), "", 0.0).room.limit_bytes == 0.0
    assert ScriptMemory(script, made_steps({}), "").room.limit_bytes > 1e6


def test_sizes() -> None:
    assert [size(each) for each in (0, 1.5e6, 64e6, 2.5e9)] == ["0 MB", "1.5 MB", "64 MB", "2.5 GB"]
