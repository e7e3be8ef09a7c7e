"""What a participant reads of a traceback is about the participant's script."""

import subprocess
import sys
from pathlib import Path

from workshop.processes.output import MOST_LINES, shorten


def test_frames_of_packages_are_left_out(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nfrom psutil import Process\nsys.stderr.write('Epoch:  0%\\rEpoch: 50%\\r')\n"
        "def main():\n    Process(\n        -5,\n    )\n\nmain()\n"
    )
    output = subprocess.run([sys.executable, script], capture_output=True, text=True).stderr
    assert "site-packages" in output
    lines = shorten(output).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("  File ")] == [
        f'  File "{script}", line 9, in <module>',
        f'  File "{script}", line 5, in main',
    ]
    assert lines[-1].startswith("ValueError: ")


def test_a_traceback_from_a_package_alone_is_kept() -> None:
    trace = 'Traceback (most recent call last):\n  File "<frozen x>", line 1, in f\nValueError: no\n'
    assert shorten(trace) == trace.strip()


def test_without_a_traceback_the_last_lines() -> None:
    assert shorten("\n".join(map(str, range(100)))).splitlines() == [str(n) for n in range(100 - MOST_LINES, 100)]
    assert shorten("a bar\rthe last of the bar\n\n") == "the last of the bar"
    assert shorten("") == ""
