"""What a dataset holds that two processes must not share."""

import io
import logging
import os
import sqlite3
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, Subset

from workshop.probe.open_handles import _noted, handle_held_before, note_handles, own_handles


class Holds(Dataset[int]):
    """A dataset of user code that holds something."""

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def __getitem__(self, index: int) -> int:
        return index


class Reader:
    """User code that a dataset reads with."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def close(self) -> None:
        """As many have it."""


def a_file(folder: Path) -> Any:
    path = folder / "file"
    path.write_bytes(bytes(range(100)))
    return path.open("rb")


def a_zip(folder: Path) -> Any:
    zipfile.ZipFile(folder / "file.zip", "w").close()
    return zipfile.ZipFile(folder / "file.zip")


def a_picture(folder: Path) -> Any:
    Image.new("RGB", (4, 4)).save(folder / "picture.png")
    return Image.open(folder / "picture.png")


def a_memory_map(folder: Path) -> Any:
    return np.memmap(folder / "map", mode="w+", shape=4)


def a_closed_file(folder: Path) -> Any:
    file = a_file(folder)
    file.close()
    return file


OPEN: dict[str, Callable[[Path], Any]] = {
    "BufferedReader": a_file,
    "Connection": lambda folder: sqlite3.connect(folder / "base.db"),
    "Environment": lambda folder: lmdb.open(str(folder / "lmdb")),
    "ZipFile": a_zip,
    "PngImageFile": a_picture,
}

SHARED: dict[str, Callable[[Path], Any]] = {
    "closed": a_closed_file,
    "in memory": lambda _: io.BytesIO(b"1"),
    "map": a_memory_map,
    "tensor": lambda _: torch.zeros(3),
    "generator": lambda _: (each for each in "abc"),
    "torch's generator": lambda _: torch.Generator(),
    "lock": lambda _: threading.Lock(),
    "logger": lambda _: logging.getLogger("a"),
    "stdout": lambda _: sys.__stdout__,
    "picture in memory": lambda _: Image.new("RGB", (4, 4)),
    "keys": lambda _: {1: 2}.keys(),
    "user code": lambda _: Reader(None),
}


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize(
    "within", [Holds, lambda held: Subset(Holds(held), [0]), lambda held: Holds([{"a": Reader(held)}])]
)
def test_what_is_open_is_found_by_its_type(tmp_path: Path, name: str, within: Callable[[Any], Any]) -> None:
    dataset = within(OPEN[name](tmp_path))
    note_handles(dataset)
    assert handle_held_before(dataset) == name


@pytest.mark.parametrize("name", SHARED)
def test_what_each_process_has_by_itself_is_none(tmp_path: Path, name: str) -> None:
    dataset = Holds(SHARED[name](tmp_path))
    note_handles(dataset)
    assert handle_held_before(dataset) == ""


def test_what_was_opened_since_is_forgotten(tmp_path: Path) -> None:
    """In its place is None if None was there, and otherwise nothing."""
    dataset: Any = Holds()
    dataset.files, dataset.slots, dataset.before = {}, [None, None], a_file(tmp_path)
    note_handles(dataset)
    dataset.held = dataset.late = dataset.slots[1] = dataset.files["a"] = a_file(tmp_path)
    note_handles(dataset)
    own_handles(dataset)
    assert dataset.held is None
    assert not hasattr(dataset, "late")
    assert dataset.files == {}
    assert dataset.slots == [None, None]
    assert dataset.before is not None


def test_what_nobody_has_noted_holds_nothing() -> None:
    note_handles([1, 2, 3])
    assert handle_held_before([1, 2, 3]) == handle_held_before(Holds()) == ""


def test_a_tensor_is_a_dataset_too() -> None:
    """Its equality is no truth."""
    datasets = torch.zeros(20, 8), torch.zeros(20, 8)
    for dataset in (*datasets, *datasets):
        note_handles(dataset)
        assert handle_held_before(dataset) == ""
        own_handles(dataset)


def test_what_is_gone_is_not_taken_for_another(tmp_path: Path) -> None:
    dataset = Holds(a_file(tmp_path))
    note_handles(dataset)
    number = id(dataset)
    assert number in _noted
    del dataset
    assert number not in _noted


def test_a_forked_process_reads_at_a_place_of_its_own(tmp_path: Path) -> None:
    """Also of a file that the dataset does not hold, such as one of a module."""
    with a_file(tmp_path) as file, (tmp_path / "log").open("w") as log:
        os.lseek(file.fileno(), 10, os.SEEK_SET)
        if not (child := os.fork()):
            own_handles([])
            is_right = os.read(file.fileno(), 5) == bytes(range(10, 15))
            os.write(log.fileno(), b"written by both")
            os._exit(0 if is_right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert os.read(file.fileno(), 5) == bytes(range(10, 15))
        assert os.lseek(log.fileno(), 0, os.SEEK_CUR) == len("written by both")
