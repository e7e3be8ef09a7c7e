"""Other programs that keep the cores busy, told from what a run does itself, with real processes that spin."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from workshop.processes import other_load
from workshop.processes.other_load import BUSY_SHARE, LoadMeter, OtherLoad, Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the figures are not known")

SPIN = "import time; end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"

MEASURE = """
import json, multiprocessing, os, subprocess, sys, time
from workshop.processes.other_load import LoadMeter

def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: pass

if __name__ == "__main__":
    own, early = [], ""
    with LoadMeter() as meter:
        if sys.argv[1] == "forks":
            started = [multiprocessing.Process(target=spin, args=(2.5,)) for _ in range(2)]
            for each in started: each.start()
            own = [each.pid for each in started]
            started[0].join()  # it has ended, the other one may still run
        elif sys.argv[1] == "orphan":  # of a parent that has ended, in a group of its own
            parent = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid); import time; time.sleep(1.5)"
            command = [sys.executable, "-c", parent, sys.executable, "-c", sys.argv[2]]
            own = [int(subprocess.run(command, stdout=subprocess.PIPE, process_group=0).stdout)]
            time.sleep(2.5)
        else:
            time.sleep(1.2)
            early = meter.so_far().warning
            time.sleep(0.8)
        load = meter.end()
    print(json.dumps({**load.as_dict(), "says": str(load), "own": own, "early": early}))
"""


@pytest.fixture
def measured(tmp_path: Path):
    """What a process is told that runs for some seconds, and spins meanwhile, in several ways."""

    def measure(how: str) -> dict:
        script = tmp_path / "measure.py"
        script.write_text(MEASURE)
        command = [sys.executable, str(script), how, SPIN.format(seconds=4)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)

    return measure


@pytest.fixture
def busy_program(tmp_path: Path) -> Iterator[subprocess.Popen]:
    """A script beside that keeps a core busy."""
    script = tmp_path / "train_elsewhere.py"
    script.write_text(SPIN.format(seconds=60))
    with subprocess.Popen([sys.executable, str(script)]) as process:
        yield process
        process.kill()


def test_what_was_used_so_far_is_told_and_watching_goes_on() -> None:
    with LoadMeter() as meter:
        time.sleep(1.1)
        so_far = meter.so_far()
        end = meter.end()
    assert (so_far.other_cores is None) == (end.other_cores is None)
    assert meter.so_far() is end


def test_a_busy_program_is_named(measured, busy_program: subprocess.Popen) -> None:
    found = measured("waits")
    assert found["busy"]
    assert found["other_cores"] >= BUSY_SHARE * found["usable_cores"]
    (other,) = [each for each in found["programs"] if each["pid"] == busy_program.pid]
    assert other["name"].endswith(" train_elsewhere.py")
    assert found["says"].startswith("Busy machine: other programs used ")
    assert found["says"].endswith(" On a quiet machine these times are shorter.")
    load = OtherLoad.of_dict({name: found[name] for name in ("usable_cores", "other_cores", "programs")})
    assert f"train_elsewhere.py (process {busy_program.pid}, " in load.advice
    assert str(load) == found["says"]
    assert found["early"].startswith("Other programs use ")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["forks", "orphan"])
def test_what_a_run_starts_itself_is_no_other_program(how: str, measured) -> None:
    found = measured(how)
    assert found["own"]
    assert not {each["pid"] for each in found["programs"]} & set(found["own"])
    # Real others may use the cores, too; those that spin here would be the whole of one, or of two.
    others = sum(each["percent"] for each in found["programs"]) / 100
    assert found["other_cores"] - others < min(0.8, found["usable_cores"] / 2)


def test_nothing_is_said_of_a_quiet_machine_or_of_one_that_tells_nothing() -> None:
    assert str(OtherLoad(2, 0.19)) == str(OtherLoad(2)) == ""
    assert OtherLoad(2, 0.19).slows_by == OtherLoad(2).slows_by == 1.0
    assert OtherLoad(2, 1.0).slows_by == 2.0
    assert OtherLoad(2, 2.0).slows_by == 4.0
    assert OtherLoad(2).advice == "Try again when the machine is quiet."
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
