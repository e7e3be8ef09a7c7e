"""How long it takes to read an item again: from the workshop's cache, from other caches, and from memory.

    python benchmarks/cached_dataset.py

Every way returns (picture, class) pairs that may be changed in place, which takes a copy at least. To copy what lies
in memory already, the RAM clone, is the limit that all are compared with. Everything is warm: it was read before, so
that the disk takes no part.
"""

import argparse
import gc
import pickle
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from machine import machine

from solutions.cached_dataset import CachedDataset, Item
from workshop.errors import plain_errors

try:
    import diskcache  # type: ignore[import-untyped]
    import lmdb
except ModuleNotFoundError as missing:
    print(f"{missing.name} is missing; pip install lmdb diskcache", file=sys.stderr)
    sys.exit(2)

Read = Callable[[int], Item]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Compare the cache with other ways to keep items.")
    parser.add_argument("--items", type=int, default=2000, help="how many (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is read (default: %(default)s)")
    parser.add_argument("--image-size", type=int, default=64, help="as in a config file (default: %(default)s)")
    args = parser.parse_args()
    if min(args.items, args.rounds, args.image_size) < 1:
        parser.error("items, rounds and image size are at least 1")

    side = args.image_size * 8 // 7  # what the solution caches: a little larger than the crop that follows
    # Each has memory of its own: a view of a larger tensor would take all of that into its pickle.
    items = [(torch.randint(256, (3, side, side), dtype=torch.uint8), random.randrange(37)) for _ in range(args.items)]
    print(machine())
    print(f"{args.items} warm items of 3x{side}x{side} bytes, {args.rounds} rounds, garbage collection off\n")
    with TemporaryDirectory() as folder:
        print_table(*measure(items, args.rounds, Path(folder)))


def measure(items: list[Item], rounds: int, root: Path) -> tuple[dict[str, list[float]], dict[str, float]]:
    """The seconds per item of each way in each round, and its bytes on disk per item."""
    reads: dict[str, Read] = {}
    sizes = {}
    for name, keep in WAYS.items():
        folder = root / name
        folder.mkdir()
        reads[name] = keep(items, folder)
        check(name, reads[name], items)
        sizes[name] = bytes_on_disk(folder) / len(items)

    times: dict[str, list[float]] = {name: [] for name in reads}
    gc.collect()
    gc.disable()  # or whoever happens to be running pays for the garbage of the others
    for _ in range(rounds):
        # A busy moment of the machine hits neighbours in time: all go in turn, and are compared within a round.
        order = random.sample(range(len(items)), len(items))
        for name in random.sample(list(reads), len(reads)):
            read = reads[name]
            start = time.perf_counter()
            for index in order:
                read(index)
            times[name].append((time.perf_counter() - start) / len(order))
    gc.enable()
    return times, sizes


def check(name: str, read: Read, items: list[Item]) -> None:
    """Make sure that the items come out as they went in, and that each may be changed in place."""
    for index, (image, label) in enumerate(items):
        expected = image.clone()  # `image` itself would change as well, were it what is returned
        changed, _ = read(index)
        changed.bitwise_not_()
        found, found_label = read(index)
        same_image = torch.equal(found, expected) and found.dtype == expected.dtype
        same_label = type(found_label) is int and found_label == label
        if not (same_image and same_label and torch.equal(changed, ~expected)):
            raise AssertionError(f"{name}: item {index} is not what was kept, or shares its memory")


def bytes_on_disk(folder: Path) -> int:
    """The room that the files take, which is whole blocks. Windows tells only their lengths."""
    stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum(stat.st_blocks * 512 if hasattr(stat, "st_blocks") else stat.st_size for stat in stats)


def keep_in_memory(items: list[Item], folder: Path) -> Read:
    """The limit. A list, because to take a row of one large tensor is slower."""
    images = [image.clone() for image, _ in items]
    labels = [label for _, label in items]
    return lambda index: (images[index].clone(), int(labels[index]))


def keep_in_cache(items: list[Item], folder: Path) -> Read:
    """The workshop's cache, filled."""
    read: Read = CachedDataset(items, folder, key="items").__getitem__
    for index in range(len(items)):
        read(index)
    return read


def keep_in_lmdb(items: list[Item], folder: Path) -> Read:
    """One database, mapped into memory; of each item the bytes, then 8 for the class."""
    shape = items[0][0].shape
    length = shape.numel()
    room = 2 * len(items) * (length + 4096) + 2**20  # for pages that are not full
    with lmdb.open(str(folder), map_size=room) as filling, filling.begin(write=True) as changes:
        for index, (image, label) in enumerate(items):
            changes.put(index.to_bytes(8, "big"), image.numpy().tobytes() + label.to_bytes(8, "little"))
    transaction = lmdb.open(str(folder), readonly=True, lock=False).begin(buffers=True)

    def read(index: int) -> Item:
        record = bytearray(transaction.get(index.to_bytes(8, "big"), b""))  # the one copy
        image = torch.frombuffer(record, dtype=torch.uint8, count=length).view(shape)
        return image, int.from_bytes(record[length:], "little")

    return read


def keep_in_diskcache(items: list[Item], folder: Path) -> Read:
    """Pickles in a database."""
    # By default it deletes what goes beyond 1 GB.
    with diskcache.Cache(folder, eviction_policy="none") as cache, cache.transact():
        for index, item in enumerate(items):
            cache[index] = item
    read: Read = diskcache.Cache(folder).__getitem__
    return read


def keep_in_torch_files(items: list[Item], folder: Path) -> Read:
    """A file for each item, as `torch.save` writes it."""
    paths = [folder / f"{index}.pt" for index in range(len(items))]
    for path, item in zip(paths, items, strict=True):
        torch.save(item, path)
    return lambda index: torch.load(paths[index], weights_only=True)


def keep_in_pickles(items: list[Item], folder: Path) -> Read:
    """A file for each item, as `pickle.dump` writes it: the way that the workshop used to go."""
    paths = [folder / f"{index}.pickle" for index in range(len(items))]
    for path, item in zip(paths, items, strict=True):
        with open(path, "wb") as file:
            pickle.dump(item, file)

    def read(index: int) -> Item:
        with open(paths[index], "rb") as file:
            item: Item = pickle.load(file)
        return item

    return read


WAYS: dict[str, Callable[[list[Item], Path], Read]] = {
    "RAM clone": keep_in_memory,
    "cache": keep_in_cache,
    "lmdb": keep_in_lmdb,
    "diskcache": keep_in_diskcache,
    "torch.save": keep_in_torch_files,
    "pickles": keep_in_pickles,
}


def print_table(times: dict[str, list[float]], sizes: dict[str, float]) -> None:
    """Medians over the rounds; the ratios are taken round by round."""

    def ratios(name: str, other: str) -> list[float]:
        return [mine / its for mine, its in zip(times[name], times[other], strict=True)]

    print(f"{'':<12}{'µs/item':>10}{'/ RAM clone':>14}{'min - max':>18}{'bytes on disk/item':>22}")
    for name in times:
        over = ratios(name, "RAM clone")
        span = f"{min(over):.2f} - {max(over):.2f}"
        print(f"{name:<12}{median(times[name]) * 1e6:>10.2f}{median(over):>14.2f}{span:>18}{sizes[name]:>22,.0f}")
    print()
    print(f"cache / RAM clone = {median(ratios('cache', 'RAM clone')):.2f} (asked: at most 1.3)")
    print(f"pickles / cache = {median(ratios('pickles', 'cache')):.1f} (asked: at least 4)")


if __name__ == "__main__":
    with plain_errors():
        main()
