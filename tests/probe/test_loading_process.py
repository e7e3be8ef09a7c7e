"""A process that loads batches and is thrown away."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from workshop.probe.loading_process import LoadingProcess


def batches() -> Iterator[int]:
    yield 1
    yield 2


def failing() -> Iterator[int]:
    yield 1
    raise ValueError("first line\nthe file is cut short")


def leaving() -> Iterator[int]:
    raise SystemExit("no such folder")
    yield


def hanging() -> Iterator[int]:
    time.sleep(60)
    yield 1


def killed() -> Iterator[int]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield


def test_it_loads_what_is_asked_for() -> None:
    before = os.listdir("/proc/self/fd")
    process = LoadingProcess(lambda: batches())
    assert [process.load(10) for _ in range(3)] == [True, True, False]
    process.end()
    with pytest.raises(ProcessLookupError):
        os.kill(process._pid, 0)
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize(
    ("begin", "why"),
    [
        (leaving, "no such folder"),
        (killed, "has ended"),
        (hanging, "no batch was loaded"),
    ],
)
def test_what_fails_is_told(begin: object, why: str) -> None:
    process = LoadingProcess(begin)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=why):
        process.load(0.3 if begin is hanging else 10)
    process.end()


def test_a_dataset_that_fails_says_why_in_its_last_line() -> None:
    process = LoadingProcess(failing)
    assert process.load(10)
    with pytest.raises(RuntimeError, match=r"^the file is cut short$"):
        process.load(10)
    process.end()


def test_a_process_that_has_inherited_it_does_not_end_it() -> None:
    process = LoadingProcess(batches)
    if not (child := os.fork()):
        process.end()
        os._exit(0)
    os.waitpid(child, 0)
    assert process.load(10)
    process.end()
