"""Mistakes in one line."""

import errno
import os

import pytest
import torch
from torch.utils.data import DataLoader

from workshop.errors import DataError, WorkshopError, plain_errors


def damaged(items: list[int]) -> None:
    raise DataError("cat.jpg cannot be read: replace it")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_mistake_is_one_line_also_out_of_a_worker(num_workers: int, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_, plain_errors():
        next(iter(DataLoader(range(4), collate_fn=damaged, num_workers=num_workers)))
    assert exit_.value.code == 2
    assert capfd.readouterr().err == "cat.jpg cannot be read: replace it\n"


DISK_FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.csv")
LOWER = "try a smaller batch_size or image_size in the config\n"


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (WorkshopError(), 2, "WorkshopError\n"),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C\n"),
        (DISK_FULL, 2, "no room for a.csv: No space left on device; free some space, or name another folder\n"),
        (torch.OutOfMemoryError("CUDA is full.\nRead more"), 2, f"out of memory (CUDA is full.); {LOWER}"),
    ],
)
def test_a_line_and_an_exit_code(
    error: BaseException, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_, plain_errors():
        raise error
    assert (exit_.value.code, capsys.readouterr().err) == (code, says)


def test_memory_that_ran_out_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), plain_errors():
        torch.empty(10**15)
    assert capsys.readouterr().err == f"out of memory; {LOWER}"


@pytest.mark.parametrize(
    "bug",
    [
        FileNotFoundError(errno.ENOENT, "no such file", "x"),
        PermissionError(errno.EPERM, "a system call that names no file"),
        ZeroDivisionError("bug"),
    ],
)
def test_a_bug_keeps_its_traceback(bug: Exception) -> None:
    with pytest.raises(type(bug)), plain_errors():
        raise bug
