"""The cache of part 5, with real workers, real kills and a real limit on the room it may take."""

import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from numbered_items import NumberedItems, picture
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from solutions.cached_dataset import CachedDataset, fingerprint


def check_items(dataset: CachedDataset) -> None:
    for index in range(len(dataset)):
        image, label = dataset[index]
        assert torch.equal(image, picture(index))
        assert label == index


def test_each_item_is_asked_for_once(tmp_path: Path) -> None:
    cold = NumberedItems()
    check_items(CachedDataset(cold, tmp_path, "key"))
    assert sorted(cold.asked) == [0, *range(20)]  # the first one also tells the shape
    warm = NumberedItems()
    dataset = CachedDataset(warm, tmp_path, "key")
    check_items(dataset)
    check_items(dataset)
    assert warm.asked == []


def test_what_is_done_to_an_item_does_not_reach_the_file(tmp_path: Path) -> None:
    dataset = CachedDataset(NumberedItems(), tmp_path, "key", transform=lambda image: image.fill_(255))
    assert all(int(dataset[index][0].min()) == 255 for index in range(20))
    assert all(int(dataset[index][0].min()) == 255 for index in range(20))
    check_items(CachedDataset(NumberedItems(), tmp_path, "key"))


def test_the_transform_is_done_anew_each_time(tmp_path: Path) -> None:
    torch.manual_seed(0)
    dataset = CachedDataset(NumberedItems(), tmp_path, "key", transform=v2.RandomErasing(p=1, value=200))
    assert len({dataset[3][0].numpy().tobytes() for _ in range(5)}) > 1


def test_another_key_is_another_cache(tmp_path: Path) -> None:
    check_items(CachedDataset(NumberedItems(), tmp_path, fingerprint("a.jpg", v2.Resize(64))))
    other = NumberedItems()
    check_items(CachedDataset(other, tmp_path, fingerprint("a.jpg", v2.Resize(65))))
    assert len(other.asked) == 21
    assert fingerprint("a.jpg", v2.Resize(64)) == fingerprint("a.jpg", v2.Resize(64))


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(method, marks=pytest.mark.slow) for method in ("spawn", "forkserver"))]
)
def test_workers_fill_one_cache(method: str, tmp_path: Path) -> None:
    dataset = CachedDataset(NumberedItems(), tmp_path, "key")
    loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2, multiprocessing_context=method)
    seen = sorted(label for _, labels in loader for label in labels.tolist())
    assert seen == list(range(20))
    assert dataset.ready.all()  # what the workers wrote is here, too
    warm = NumberedItems()
    check_items(CachedDataset(warm, tmp_path, "key"))
    assert warm.asked == []


def test_the_items_are_not_pickled(tmp_path: Path) -> None:
    small, large = (len(pickle.dumps(CachedDataset(NumberedItems(n), tmp_path, f"key{n}"))) for n in (10, 1000))
    assert large - small < 100


def test_a_cache_can_be_carried_to_another_place(tmp_path: Path) -> None:
    check_items(CachedDataset(NumberedItems(), tmp_path / "here", "key"))
    (tmp_path / "here").rename(tmp_path / "there")
    warm = NumberedItems()
    check_items(CachedDataset(warm, tmp_path / "there", "key"))
    assert warm.asked == []


FILL = """
import sys, time
from pathlib import Path
from numbered_items import NumberedItems
from solutions.cached_dataset import CachedDataset

dataset = CachedDataset(NumberedItems(2000, side=64), Path(sys.argv[1]), "key")
print("filling", flush=True)
for index in range(2000):
    dataset[index]
    time.sleep(0.0005)
"""


@pytest.fixture
def fillers(tmp_path: Path, project: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two processes that fill the same cache."""
    environment = {**os.environ, "PYTHONPATH": f"{project}{os.pathsep}{project / 'tests'}"}
    command = [sys.executable, "-c", FILL, str(tmp_path)]
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def test_killed_at_any_moment_it_holds_whole_items_or_none(
    fillers: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    for process in fillers:
        assert process.stdout
        assert process.stdout.readline() == "filling\n"
    time.sleep(0.3)
    for process in fillers:
        process.send_signal(signal.SIGKILL)
        process.wait()

    class Never(NumberedItems):
        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            raise AssertionError(f"item {index} was marked as ready")

    dataset = CachedDataset(Never(2000), tmp_path, "key")
    ready = [index for index in range(2000) if dataset.ready[index]]
    assert 0 < len(ready) < 2000
    for index in ready:
        image, label = dataset[index]
        assert label == index
        assert torch.equal(image, picture(index, side=64))


def test_no_room_is_found_out_at_the_start(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            CachedDataset(NumberedItems(), tmp_path, "key")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
