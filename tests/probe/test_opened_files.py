"""What a thread sleeps is counted, and no time passes for a sleeper while its process is stopped."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workshop.judge.ledger import Ledger
from workshop.probe import opened_files


def test_a_sleeper_that_was_stopped_sleeps_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a second, when it has slept for a tenth of one, so that it must sleep for four tenths after."""
    now, naps = 0.0, list[float]()

    def nap(seconds: float) -> None:
        nonlocal now
        naps.append(seconds)
        now += seconds + (1.0 if len(naps) == 5 else 0.0)

    monkeypatch.setattr(opened_files, "_sleep", nap)
    monkeypatch.setattr(opened_files, "_monotonic", lambda: now)
    monkeypatch.setattr(opened_files, "_waits", opened_files._Waits())
    monkeypatch.setattr(time, "sleep", nap)  # so that it is put back
    opened_files.watch_sleep()
    time.sleep(0.5)
    assert (now, opened_files._waits.slept_s) == pytest.approx((1.5, 0.5))


WRITES = """
import os, sys
from workshop.probe.event_file import EventFile
from workshop.probe.opened_files import watch_writes

notes, own, others = sys.argv[1:]
watch_writes([own, notes], EventFile(notes))
open(f"{own}/mine", "w").close()
open(__file__).close()
open("/dev/null", "w").close()
os.makedirs(f"{others}/__pycache__")
open(f"{others}/__pycache__/x", "w").close()
for name in ("a", "b", "a"):
    with open(f"{others}/{name}", "ab") as file:
        file.write(b"x")
os.close(os.open(f"{others}/c", os.O_CREAT | os.O_RDWR))
"""


def test_files_that_stay_behind_are_named(tmp_path: Path) -> None:
    script = tmp_path / "writes.py"
    script.write_text(WRITES)
    folders = [tmp_path / name for name in ("notes", "own", "others")]
    for folder in folders:
        folder.mkdir()
    subprocess.run([sys.executable, script, *folders], check=True, cwd=tmp_path, env=os.environ)
    assert Ledger.of(folders[0]).files == [str(folders[2] / name) for name in "abc"]
