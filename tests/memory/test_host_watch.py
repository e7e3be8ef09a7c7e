"""The memory of processes as it is without the looks at it."""

from made_memory import MIB, look

from workshop.memory.host_watch import HostWatch
from workshop.probe.memory.memory_notes import ProbeLook


def test_what_a_look_for_holders_has_touched_is_not_the_training_s_own() -> None:
    seen = [look(1.0, p7=100, p8=50), look(5.5, p7=200, p8=50), look(9.0, p7=250, p8=60)]
    watch = HostWatch(seen).without([ProbeLook(6.0, 7, 1, began_s=5.0, own_bytes=120 * MIB)])
    assert [each.time_s for each in watch.looks] == [1.0, 9.0], "one was in the middle"
    assert [each.processes[7].private for each in watch.looks] == [100 * MIB, 130 * MIB]
    assert [each.processes[8].private for each in watch.looks] == [50 * MIB, 60 * MIB]
    assert watch.most
    assert watch.most.together == 190 * MIB


def test_that_holds_until_a_worker_ends_or_begins() -> None:
    seen = [look(1.0, p7=100, p8=50), look(7.0, p7=200, p8=50), look(8.0, p7=200), look(9.0, p7=90, p9=50)]
    watch = HostWatch(seen).without([ProbeLook(6.0, 7, 1, began_s=5.0, own_bytes=120 * MIB)])
    assert [each.processes[7].private for each in watch.looks] == [100 * MIB, 80 * MIB, 200 * MIB, 90 * MIB]
    watch = HostWatch([look(9.0, p7=90)]).without([ProbeLook(6.0, 7, 1, began_s=5.0, own_bytes=120 * MIB)])
    assert watch.looks[0].together == 0
