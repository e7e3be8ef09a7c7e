"""Files that a script writes outside of its own folders are noted; the rest are not."""

import os
import subprocess
import sys
from pathlib import Path

from workshop.judge.ledger import Ledger

WRITES = """
import os, sys
from workshop.probe.event_file import EventFile
from workshop.probe.file_writes import watch_writes

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
