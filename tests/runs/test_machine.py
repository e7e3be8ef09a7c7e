"""The memory that processes use, and may use."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from workshop.runs.machine import free_memory, free_shared_memory
from workshop.runs.process_tree import memory_together, private_memory

MEGABYTE = 1 << 20

FORKS = """
import os, sys
kept = bytearray(b"x" * (64 << 20))
child = os.fork()
if not child:
    own = bytearray(b"y" * (32 << 20))
    print(os.getpid(), flush=True)
sys.stdin.read()
"""


def test_what_is_shared_counts_once() -> None:
    """A process with 64 MB forks another, which shares them; libraries count for more as other programs end."""
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        both, without = (memory_together([process.pid, child], without=each) for each in ([], [child]))
        assert 96 * MEGABYTE < both < 132 * MEGABYTE
        assert 32 * MEGABYTE < private_memory(child) < 64 * MEGABYTE
        assert 64 * MEGABYTE < without < both - 16 * MEGABYTE
        process.communicate("")


def test_processes_that_are_gone_use_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert memory_together([process.pid]) == private_memory(process.pid) == 0


def test_the_limit_is_that_of_the_tightest_group(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/jobs/mine"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/jobs/mine\n")
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("1000000\n")
    assert free_memory(tmp_path) > 50 * MEGABYTE, "that of the machine"
    (group.parent / "memory.max").write_text("9000000\n")
    (group.parent / "memory.current").write_text("4000000\n")
    assert free_memory(tmp_path) == 5_000_000
    (tmp_path / "sys/fs/cgroup/memory").mkdir()
    (tmp_path / "sys/fs/cgroup/memory/memory.limit_in_bytes").write_text("4000000")
    (tmp_path / "sys/fs/cgroup/memory/memory.usage_in_bytes").write_text("3000000")
    assert free_memory(tmp_path) == 1_000_000
    (tmp_path / "proc/self/cgroup").write_text("0::/jobs/mine\n4:cpu,memory:/inner\n")
    (tmp_path / "sys/fs/cgroup/memory/inner").mkdir()
    (tmp_path / "sys/fs/cgroup/memory/inner/memory.limit_in_bytes").write_text("500000")
    (tmp_path / "sys/fs/cgroup/memory/inner/memory.usage_in_bytes").write_text("600000")
    assert free_memory(tmp_path) == 0


def test_without_groups_it_is_what_the_machine_has() -> None:
    free = free_memory(Path(os.devnull))
    assert 0 < free <= psutil.virtual_memory().total


def test_shared_memory(tmp_path: Path) -> None:
    assert free_shared_memory(tmp_path / "absent") is None
    assert (free_shared_memory(tmp_path) or 0) > 0
