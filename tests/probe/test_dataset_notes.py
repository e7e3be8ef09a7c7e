"""What datasets have is counted and noted: objects that forked workers would copy, and parts of batches in float64."""

import gc
import os
import random
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from workshop.probe import wire
from workshop.probe.event_file import EventFile
from workshop.probe.memory.dataset_notes import AttributeCounts, WideBatches, note_touched, way_to_wide
from workshop.probe.memory.memory_notes import AttributeObjects, TouchedAttribute, WideItems
from workshop.probe.memory.object_sizes import count_objects, describe_container
from workshop.probe.memory.process_memory import unshared


class Names:
    def __init__(self, names: object) -> None:
        self.names = names


def test_the_objects_of_a_list_are_counted_from_a_sample() -> None:
    names = [f"item-{number:09d}" for number in range(100_000)]
    count = count_objects(names)
    assert abs(count.objects - 100_000) < 1000
    assert 5e6 < count.bytes < 9e6
    assert count.content_bytes == 100_000 * len(names[0])
    assert describe_container(names) == "list of str"


def test_numbers_in_nested_containers_would_take_eight_bytes_in_an_array() -> None:
    rows = [{"x": [random.random() for _ in range(16)], "y": 1} for _ in range(1000)]
    assert count_objects(rows).content_bytes == 1000 * 17 * 8


def test_an_array_is_one_object_and_workers_get_a_copy_of_it() -> None:
    assert count_objects(np.arange(1_000_000))[0] == count_objects(torch.arange(1_000_000))[0] == 1
    assert count_objects([np.zeros(1000) for _ in range(10)]).array_bytes == 80_000
    assert count_objects(np.zeros(1000)).array_bytes == 8000
    assert count_objects([torch.zeros(1000)]).array_bytes == 0


@pytest.mark.parametrize("different", [4, 300, 3000])
def test_the_same_objects_again_and_again_do_not_count_each_time(different: int) -> None:
    labels = [f"label {number}" for number in range(different)]
    dice = random.Random(0)
    assert count_objects([dice.choice(labels) for _ in range(400_000)]).objects < 2 * different + 200


def test_what_has_a_size_or_no_bytes_of_its_own() -> None:
    file = namedtuple("file", "path size")
    assert count_objects([file(f"{number}.png", 1 << 20) for number in range(1000)]).objects < 4000
    assert count_objects([torch.zeros(3).untyped_storage(), torch.zeros(3).to_sparse()] * 8).objects <= 17


def test_sizes() -> None:
    assert count_objects([np.zeros(1000) for _ in range(100)]).size > 800_000
    assert count_objects([torch.zeros(1000) for _ in range(100)]).size >= 400_000
    model = torch.zeros(1_000_000)
    knowing = [{"of": model, "at": number} for number in range(1000)]
    assert count_objects(knowing).size < 400_000, "all of them know the same"
    assert count_objects([1, 2] * 10_000).size < 200_000, "the same few objects are there once"


def notes(folder: Path) -> list[object]:
    return [wire.decode(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def touched(folder: Path, value: object) -> int:
    note_touched(3, "dataset.names", value, EventFile(str(folder)))
    note = notes(folder)[-1]
    assert isinstance(note, TouchedAttribute)
    return note.private_bytes - note.untouched_bytes


def test_going_through_strings_makes_their_memory_private_and_an_array_does_not(tmp_path: Path) -> None:
    names = [f"item-{number:09d}" for number in range(300_000)]
    grown = touched(tmp_path, names)
    assert 12e6 < grown < 40e6, "58 bytes each, and the list"
    assert touched(tmp_path, np.array(names)) < 2e6


def strings(count: int = 20_000) -> list[str]:
    return [f"item-{number:09d}" for number in range(count)]


def loader_of(names: object, number: int) -> DataLoader[object]:
    loader: DataLoader[object] = DataLoader(Names(names), num_workers=2)  # type: ignore[arg-type]
    vars(loader)["_workshop_number"] = number
    return loader


def test_datasets_of_one_class_are_told_apart_and_each_is_counted_once(tmp_path: Path) -> None:
    counts = AttributeCounts(EventFile(str(tmp_path)))
    training, validation = loader_of(strings(), 4), loader_of(strings(10_000), 5)
    for each in (training, validation, training, validation):
        counts.on_loader_start(each)
    noted = [each for each in notes(tmp_path) if isinstance(each, AttributeObjects)]
    assert [(each.loader, round(each.objects, -4)) for each in noted] == [(4, 20_000), (5, 10_000)]
    assert {each.workers for each in noted} == {2}
    assert [(number, name, len(value)) for number, name, value in counts.present()] == [
        (4, "dataset.names", 20_000),
        (5, "dataset.names", 10_000),
    ]


def test_a_dataset_that_the_script_has_dropped_is_not_kept(tmp_path: Path) -> None:
    counts = AttributeCounts(EventFile(str(tmp_path)))
    counts.on_loader_start(loader_of(strings(), 4))
    gc.collect()
    assert list(counts.present()) == []
    counts.on_loader_start(DataLoader([1, 2], num_workers=2))  # type: ignore[arg-type]
    assert counts.starting is not None, "a list cannot be known without being kept"


def shares_in_a_fork(names: list[str], used: int) -> list[float]:
    """The share of some addresses that is a forked process's own before and after it uses some of the strings."""
    addresses = [id(each) for each in names[:: len(names) // 200]]
    reads, writes = os.pipe()
    if not (child := os.fork()):
        before = unshared(addresses)
        for each in random.Random(0).sample(range(len(names)), used):
            names[each]
        os.write(writes, f"{before} {unshared(addresses)}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    return [float(each) for each in os.read(reads, 100).split()]


@pytest.mark.skipif(not os.path.exists("/proc/self/pagemap"), reason="the kernel does not tell")
def test_which_objects_a_fork_has_copied_is_seen_without_touching_them() -> None:
    names = strings(300_000)
    before, after = shares_in_a_fork(names, used=0)
    assert max(before, after) < 0.03
    before, after = shares_in_a_fork(names, used=300_000)
    assert (before < 0.03, after) == (True, 1.0)
    assert 0.0 < shares_in_a_fork(names, used=1000)[1] < 0.9


# Batches


class Poses(Dataset[Any]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return torch.zeros(3), {"heat": torch.zeros(3, dtype=torch.float64)}


def test_the_way_to_the_first_part_that_is_wide() -> None:
    wide = torch.zeros(3, dtype=torch.float64)
    assert way_to_wide(wide) == ()
    assert way_to_wide([torch.zeros(3), {"x": 3, "y": wide}]) == ("1", "y")
    assert way_to_wide([torch.zeros(3), torch.zeros(3, dtype=torch.long)]) is None


def test_it_is_noted_once_with_the_code_of_the_innermost_dataset(tmp_path: Path) -> None:
    loader, loading = DataLoader(Subset(Poses(), [1, 2]), 2), SimpleNamespace()
    wide = WideBatches(EventFile(str(tmp_path)), loading)  # type: ignore[arg-type]
    vars(loader)["_workshop_number"] = 7
    wide.on_loader_start(loader)
    for loading.asked in (8, 7, 7):
        wide.on_batch(next(iter(loader)))
    [noted] = notes(tmp_path)
    assert isinstance(noted, WideItems)
    assert noted.way == ("1", "heat")
    assert noted.frame == ("__getitem__", __file__, Poses.__getitem__.__code__.co_firstlineno)


class Config(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(TensorDataset(torch.zeros(8, dtype=torch.float64)), 2),
        DataLoader(Poses(), 2, collate_fn=lambda items: items[0][1]["heat"]),
    ],
)
def test_nothing_is_said_of_a_library_s_items_or_of_batches_that_are_made_otherwise(
    loader: DataLoader[Any], tmp_path: Path
) -> None:
    wide = WideBatches(EventFile(str(tmp_path)), SimpleNamespace(asked=7))  # type: ignore[arg-type]
    vars(loader)["_workshop_number"] = 7
    wide.on_loader_start(loader)
    wide.on_batch(next(iter(loader)))
    assert not list(tmp_path.iterdir())
    assert way_to_wide(Config(x=torch.zeros(3, dtype=torch.float64))) is None, "it may do anything"
