"""What a participant reads of a traceback is about the participant's script."""

import subprocess
import sys
from pathlib import Path

from workshop.harness.frames import MOST_LINES, trim


def test_frames_of_packages_are_left_out(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nfrom torch import nn, randn\nsys.stderr.write('Epoch:  0%\\rEpoch: 50%\\r')\n"
        "def main():\n    nn.Linear(2, 3)(\n        randn(5),\n    )\n\nmain()\n"
    )
    output = subprocess.run([sys.executable, script], capture_output=True, text=True).stderr
    assert "site-packages" in output
    lines = trim(output).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("  File ")] == [
        f'  File "{script}", line 9, in <module>',
        f'  File "{script}", line 5, in main',
    ]
    assert lines[-1].startswith("RuntimeError: ")


def test_a_traceback_from_a_package_alone_is_kept() -> None:
    trace = 'Traceback (most recent call last):\n  File "<frozen x>", line 1, in f\nValueError: no\n'
    assert trim(trace) == trace.strip()


def test_without_a_traceback_the_last_lines() -> None:
    assert trim("\n".join(map(str, range(100)))).splitlines() == [str(n) for n in range(100 - MOST_LINES, 100)]
    assert trim("a bar\rthe last of the bar\n\n") == "the last of the bar"
    assert trim("") == ""
