"""Other programs that keep the cores busy, told from what a run does itself."""

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from workshop.runs import other_load
from workshop.runs.other_load import LoadMeter, OtherLoad, Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the figures are not known")


@dataclass(eq=False)
class Played:
    """A process that is not there, as psutil tells of one."""

    pid: int
    parent: int
    command: str
    group: int
    used_s: float = 0.0
    of_children_s: float = 0.0
    runs: bool = True
    above: list["Played"] = field(default_factory=list)

    def parents(self) -> list["Played"]:
        return self.above

    def ppid(self) -> int:
        return self.parent

    def is_running(self) -> bool:
        return self.runs

    def name(self) -> str:
        return self.command.split()[0]

    def cmdline(self) -> list[str]:
        return self.command.split()

    def cpu_times(self) -> SimpleNamespace:
        return SimpleNamespace(user=self.used_s, system=0.0, children_user=self.of_children_s, children_system=0.0)


class Machine:
    """Two cores, and the processes on them; time passes as a test says. This process has pid 10."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.processes: dict[int, Played] = {}
        self.ended_s = 0.0
        self.me = self.started(10, "python -m workshop", parent=9)

    def started(self, pid: int, command: str, parent: int = 1, group: int = 0) -> Played:
        self.processes[pid] = Played(pid, parent, command, group or pid)
        return self.processes[pid]

    def ends(self, process: Played, waited_for: bool = True) -> None:
        """A process ends; its children get another parent, and its own parent its time, if that waits for it."""
        del self.processes[process.pid]
        process.runs = False
        self.ended_s += process.used_s
        for each in self.processes.values():
            if each.parent == process.pid:
                each.parent = 1
        if waited_for:
            self.processes[process.parent].of_children_s += process.used_s + process.of_children_s

    def passes(self, seconds: float, used: dict[int, float]) -> None:
        """Some time passes, in which processes use the cores."""
        self.now += seconds
        for pid, used_s in used.items():
            self.processes[pid].used_s += used_s

    def busy_s(self) -> float:
        return self.ended_s + sum(each.used_s for each in self.processes.values())


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    played = Machine()
    listed = SimpleNamespace(
        Error=psutil.Error, Process=lambda: played.me, process_iter=lambda: list(played.processes.values())
    )
    groups = SimpleNamespace(getpgid=lambda pid: played.processes[pid or 10].group, getpid=lambda: 10)
    monkeypatch.setattr(other_load, "psutil", listed)
    monkeypatch.setattr(other_load, "os", groups)
    monkeypatch.setattr(other_load, "time", SimpleNamespace(monotonic=lambda: played.now))
    monkeypatch.setattr(other_load, "usable_cores", lambda: 2)
    monkeypatch.setattr(other_load, "core_quota", lambda: None)
    monkeypatch.setattr(other_load, "busy_seconds", played.busy_s)
    monkeypatch.setattr(other_load, "again_and_again", lambda *_: nullcontext())
    return played


def test_a_busy_program_is_named(machine: Machine) -> None:
    machine.started(50, "python -u train_elsewhere.py --fast")
    machine.started(51, "idle")
    meter = LoadMeter()
    machine.passes(0.9, {50: 0.9})
    assert meter.so_far() == OtherLoad(2), "in so short a time, nothing is known"
    machine.passes(9.1, {10: 8.0, 50: 8.1, 51: 0.9})
    early, load = meter.so_far(), meter.end()
    assert load == early == OtherLoad(2, 0.99, (Program("python train_elsewhere.py", 50, 90.0),))
    assert load.busy
    machine.passes(5.0, {})
    assert meter.so_far() is meter.end() is load, "what was measured stays"


@pytest.mark.parametrize(
    ("command", "above", "name"),
    [
        ("python train.py", "/bin/python3 /bin/workshop check part3", "python train.py of another workshop check"),
        ("python -c 1 train.py", "python -m workshop -v measure train.py", "python of another workshop measure"),
        ("python /bin/workshop compare a.py b.py", "bash", "another workshop compare"),
        ("vim workshop notes", "bash", "vim workshop"),
    ],
)
def test_what_another_check_runs_is_no_stranger(machine: Machine, command: str, above: str, name: str) -> None:
    machine.started(50, command).above = [Played(49, 1, "guard", 49), Played(48, 1, above, 48)]
    meter = LoadMeter()
    machine.passes(10.0, {50: 9.0})
    assert [each.name for each in meter.end().programs] == [name]


def test_what_a_run_starts_itself_is_no_other_program(machine: Machine) -> None:
    """Whether it has ended, is in another group, or was seen only once its time was added to its parent's."""
    meter = LoadMeter()
    first, second = (machine.started(pid, "python train.py", parent=10) for pid in (11, 12))
    machine.passes(5.0, {11: 5.0, 12: 5.0})
    machine.ends(first)
    leader = machine.started(20, "sh", parent=10)
    machine.started(21, "python train.py", parent=20, group=20)
    assert meter.so_far().other_cores == 0.0
    machine.ends(leader)
    machine.passes(5.0, {12: 4.0, 21: 5.0})
    machine.started(22, "python worker.py", parent=1, group=20)
    machine.passes(5.0, {21: 4.0, 22: 1.0})
    machine.ends(second)
    load = meter.end()
    assert (load.other_cores, load.programs) == (0.0, ())


def test_of_orphans_that_have_ended_what_was_seen_counts(machine: Machine) -> None:
    meter = LoadMeter()
    orphan = machine.started(11, "python train.py", parent=10)
    machine.passes(5.0, {11: 5.0})
    meter.so_far()
    orphan.parent = 1
    machine.ends(orphan, waited_for=False)
    machine.passes(5.0, {})
    assert meter.end().other_cores == 0.0


ON_TWO_CORES = "import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])\n"
SPIN = "import time; end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"

MEASURE = f"""{ON_TWO_CORES}
import json, multiprocessing
from workshop.runs.other_load import LoadMeter

def spin():
    {SPIN.format(seconds=1.5).replace(chr(10), chr(10) + "    ")}

if __name__ == "__main__":
    with LoadMeter() as meter:
        started = [multiprocessing.Process(target=spin) for _ in range(2)]
        for each in started: each.start()
        started[0].join()  # it has ended, the other one may still run
        load = meter.end()
    print(json.dumps({{**load.as_dict(), "own": [each.pid for each in started]}}))
"""


@pytest.mark.slow
def test_a_real_run_is_told_from_a_real_program(tmp_path: Path) -> None:
    (tmp_path / "train_elsewhere.py").write_text(ON_TWO_CORES + SPIN.format(seconds=60))
    (tmp_path / "measure.py").write_text(MEASURE)
    command = [sys.executable, str(tmp_path / "measure.py")]
    with subprocess.Popen([sys.executable, str(tmp_path / "train_elsewhere.py")]) as busy_program:
        try:
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        finally:
            busy_program.kill()
    assert found["busy"]
    assert not {each["pid"] for each in found["programs"]} & set(found["own"])


def test_nothing_is_said_of_a_quiet_machine_or_of_one_that_tells_nothing() -> None:
    assert str(OtherLoad(2, 0.19)) == str(OtherLoad(2)) == ""
    assert OtherLoad(2, 0.19).slows_by == OtherLoad(2).slows_by == 1.0
    assert OtherLoad(2, 1.0).slows_by == 2.0
    assert OtherLoad(2, 2.0).slows_by == 4.0
    assert OtherLoad(2).advice == OtherLoad(2, 0.1).advice == ""
    busy = OtherLoad(2, 1.12, (Program("python train.py", 123, 98.4),))
    assert str(busy) == (
        "Busy machine: other programs used 1.1 of 2 cores meanwhile, above all python train.py (process 123). "
        "On a quiet machine these times are shorter."
    )
    assert busy.advice == "Close python train.py (process 123, 98 % of a core) and try again."
    assert busy.warning == (
        "Other programs use 1.1 of 2 cores, above all python train.py (process 123): this takes longer than on a quiet "
        "machine, and may end undecided."
    )
    assert OtherLoad(2, 0.19).warning == OtherLoad(2).warning == ""
    assert OtherLoad.of_dict(busy.as_dict()) == busy


@pytest.mark.parametrize(
    ("used_s", "says"), [(30.0, "Busy machine: other programs used 1.5 of 1.5 cores meanwhile"), (1.0, "")]
)
def test_under_a_quota_it_is_seen_who_shares_it(used_s: float, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of a quiet container nothing is said: what runs beside it is not known."""
    seconds, times = iter([0.0, used_s]), iter([0.0, 10.0])
    monkeypatch.setattr(other_load, "usable_cores", lambda: 2)
    monkeypatch.setattr(other_load, "core_quota", lambda: 1.5)
    monkeypatch.setattr(other_load, "group_seconds", lambda: next(seconds))
    monkeypatch.setattr(other_load, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(LoadMeter, "_look", lambda _: 0.0)
    monkeypatch.setattr(other_load, "again_and_again", lambda *_: nullcontext())
    load = LoadMeter().end()
    assert str(load).startswith(says)
    assert load.busy == bool(says)
    assert (load.other_cores is None) == (not says), "it is not said to be quiet"
