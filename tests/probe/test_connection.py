"""The probe's file descriptors are out of the way of the script, wherever that is."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from workshop.probe.connection import moved_up


@pytest.mark.parametrize(("limit", "lowest"), [(1024, 500), (256, 200), (150, 100), (60, 3)])
def test_there_is_a_descriptor_below_any_limit(limit: int, lowest: int) -> None:
    """A Mac's shell allows 256 open files."""
    code = f"""
import os
from workshop.probe.connection import moved_up
high = moved_up(os.open(os.devnull, os.O_WRONLY))
assert high >= {lowest}, high
assert not os.get_inheritable(high)
os.write(high, b"it is open")
"""

    def set_limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, preexec_fn=set_limit)


def test_the_low_descriptor_is_closed(tmp_path: Path) -> None:
    low = os.open(tmp_path, os.O_RDONLY)
    high = moved_up(low)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(low)
    os.close(high)
