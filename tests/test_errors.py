"""Mistakes in one line."""

import errno
import os

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from workshop.errors import DataError, WorkshopError, plain_errors


class Damaged(Dataset[int]):
    """A data set in which nothing can be read."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        raise DataError("cat.jpg cannot be read: replace it")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_mistake_is_one_line_also_out_of_a_worker(num_workers: int, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_, plain_errors():
        next(iter(DataLoader(Damaged(), num_workers=num_workers)))
    assert exit_.value.code == 2
    assert capfd.readouterr().err == "cat.jpg cannot be read: replace it\n"


LOWER = "try a smaller batch_size or image_size in the config\n"


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (WorkshopError(), 2, "WorkshopError\n"),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C\n"),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "metrics.csv"),
            2,
            "no room for metrics.csv: No space left on device; free some space, or name another folder\n",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory.\nSee the documentation"),
            2,
            f"out of memory (CUDA out of memory.); {LOWER}",
        ),
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
