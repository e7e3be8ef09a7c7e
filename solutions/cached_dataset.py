"""A dataset that caches the items of a slow dataset on disk.

All items lie one after the other in one file that is mapped into memory, so that reading an item copies it out of the
page cache. Only deterministic transforms may run before the cache; random ones run anew on each item that is read.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

Item = tuple[torch.Tensor, int]


class CachedDataset(Dataset[Item]):
    """A dataset that fetches each item of `dataset` once and from then on reads it from a file under `cache_dir`.

    Even if the process is killed, the file holds no half items, because an item is marked as ready last. Any number of
    processes may use the file at once: two that fetch the same item write the same bytes.

    Args:
        dataset: the slow dataset; an item is a uint8 tensor of one shape for all and a class, the same every time.
        cache_dir: the folder of the cache, made if need be. The file in it can be carried to another computer.
        key: a name for what the items depend on, see `fingerprint`; another key is another file.
        transform: applied to the tensor of each item that is returned, such as the augmentation.

    Raises:
        OSError: there is no room for the whole file, which is found out here and not hours later.
    """

    def __init__(
        self, dataset: Dataset[Item], cache_dir: Path, key: str, transform: Callable[[torch.Tensor], Any] | None = None
    ) -> None:
        self.dataset = dataset
        self.path = cache_dir / f"{key}.npy"
        self.transform = transform
        if not self.path.exists():
            image, _ = dataset[0]
            make_empty(self.path, len(dataset), tuple(image.shape))
        self._open()

    def __len__(self) -> int:
        return len(self.ready)

    def __getitem__(self, index: int) -> Item:
        if self.ready.item(index):
            # A copy, so that a transform in place does not change the file.
            image, label = self.images[index].clone(), self.labels.item(index)
        else:
            image, label = self.dataset[index]
            self.images[index] = image
            self.labels[index] = label
            self.ready[index] = True  # last, so that no process reads half an item
        return (self.transform(image) if self.transform else image), label

    def _open(self) -> None:
        records = np.load(self.path, mmap_mode="r+")
        self.images = torch.from_numpy(records["image"])
        self.labels: NDArray[np.int64] = records["label"]
        self.ready: NDArray[np.bool_] = records["ready"]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the mapped arrays, which would be copied whole when pickled for a worker."""
        return {name: value for name, value in self.__dict__.items() if name not in ("images", "labels", "ready")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


def fingerprint(*parts: object) -> str:
    """Return a short name for everything that items depend on, as `repr` shows it: files, sizes, transforms."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def make_empty(path: Path, length: int, shape: tuple[int, ...]) -> None:
    """Make a file for `length` items of `shape`, none of them ready."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = np.dtype([("image", np.uint8, shape), ("label", "<i8"), ("ready", np.bool_)])
    header = {"descr": np.lib.format.dtype_to_descr(record), "fortran_order": False, "shape": (length,)}
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with open(partial, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            # Zeros take their room on the disk now. A sparse file would take it item by item, and a disk that is full
            # by then ends the process with a bus error.
            for _ in range(length):
                file.write(bytes(record.itemsize))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
