"""The cache of part 5, with real workers, real kills and a real limit on the room it may take."""

import multiprocessing
import pickle
import resource
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import torch
from numbered_items import NumberedItems, picture
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from solutions.cached_dataset import CachedDataset, fingerprint


def read_all(folder: Path, key: str = "key") -> list[int]:
    """Read and check each item through a cache, and return the items that were fetched from the slow dataset."""
    slow = NumberedItems()
    dataset = CachedDataset(slow, folder, key)
    for index in range(len(dataset)):
        image, label = dataset[index]
        assert torch.equal(image, picture(index))
        assert label == index
    return slow.asked


def test_each_item_is_fetched_once_and_the_cache_can_be_moved(tmp_path: Path) -> None:
    assert read_all(tmp_path / "here") == [0, *range(20)]  # the first one also tells the shape
    assert read_all(tmp_path / "here") == []
    (tmp_path / "here").rename(tmp_path / "there")
    assert read_all(tmp_path / "there") == []


def test_another_key_is_another_cache(tmp_path: Path) -> None:
    for side in (64, 65):
        assert len(read_all(tmp_path, fingerprint("a.jpg", v2.Resize(side)))) == 21
    assert read_all(tmp_path, fingerprint("a.jpg", v2.Resize(64))) == []


def test_the_transform_does_not_reach_the_file(tmp_path: Path) -> None:
    dataset = CachedDataset(NumberedItems(), tmp_path, "key", transform=lambda image: image.fill_(255))
    assert all(int(dataset[index][0].min()) == 255 for index in [*range(20), *range(20)])
    assert read_all(tmp_path) == []


def test_the_transform_is_done_anew_each_time(tmp_path: Path) -> None:
    torch.manual_seed(0)
    dataset = CachedDataset(NumberedItems(), tmp_path, "key", transform=v2.RandomErasing(p=1, value=200))
    assert len({dataset[3][0].numpy().tobytes() for _ in range(5)}) > 1


@pytest.mark.parametrize(
    "method",
    [
        "fork",
        pytest.param("spawn", marks=pytest.mark.slow),
        pytest.param("forkserver", marks=pytest.mark.acceptance),
    ],
)
def test_workers_fill_one_cache(method: str, tmp_path: Path) -> None:
    dataset = CachedDataset(NumberedItems(), tmp_path, "key")
    loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2, multiprocessing_context=method)
    seen = sorted(label for _, labels in loader for label in labels.tolist())
    assert seen == list(range(20))
    assert dataset.ready.all()  # what the workers wrote is here, too
    assert read_all(tmp_path) == []


def test_the_items_are_not_pickled(tmp_path: Path) -> None:
    small, large = (len(pickle.dumps(CachedDataset(NumberedItems(n), tmp_path, f"key{n}"))) for n in (10, 1000))
    assert large - small < 100


def fill(folder: Path, opened: Barrier) -> None:
    dataset = CachedDataset(NumberedItems(2000, side=64), folder, "key")
    opened.wait()
    for index in range(2000):
        dataset[index]
        time.sleep(0.0005)


def test_killed_at_any_moment_it_holds_whole_items_or_none(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    opened = fork.Barrier(3)
    fillers = [fork.Process(target=fill, args=(tmp_path, opened), daemon=True) for _ in range(2)]
    for filler in fillers:
        filler.start()
    opened.wait(timeout=60)
    time.sleep(0.3)
    for filler in fillers:
        filler.kill()
        filler.join()

    slow = NumberedItems(2000)
    dataset = CachedDataset(slow, tmp_path, "key")
    ready = [index for index in range(2000) if dataset.ready[index]]
    assert 0 < len(ready) < 2000
    for index in ready:
        image, label = dataset[index]
        assert label == index
        assert torch.equal(image, picture(index, side=64))
    assert slow.asked == []


def test_no_room_is_found_out_at_the_start(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            CachedDataset(NumberedItems(), tmp_path, "key")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
