"""What a forked worker would copy is counted: Python objects, and not what an array contains."""

from pathlib import Path

import numpy as np
import torch

from workshop.probe import wire
from workshop.probe.event_file import EventFile
from workshop.probe.memory.dataset_attributes import attributes_of
from workshop.probe.memory.memory_notes import TouchedAttribute
from workshop.probe.memory.python_objects import count_objects, describe_container
from workshop.probe.memory.touched_attribute import note_touched


class Names:
    def __init__(self, names: object) -> None:
        self.names = names


class Wrapped:
    def __init__(self, dataset: object) -> None:
        self.dataset = dataset


def test_the_objects_of_a_list_are_counted_from_a_sample() -> None:
    names = [f"item-{number:09d}" for number in range(100_000)]
    objects, size = count_objects(names)
    assert abs(objects - 100_000) < 1000
    assert 5e6 < size < 9e6
    assert describe_container(names) == "list of str"


def test_an_array_is_one_object() -> None:
    assert count_objects(np.arange(1_000_000))[0] == 1
    assert count_objects(torch.arange(1_000_000))[0] == 1


def test_the_same_few_objects_again_and_again_do_not_count_each_time() -> None:
    assert count_objects([1, 2, 3, 4] * 100_000)[0] < 20_000


def test_what_a_dataset_wraps_is_looked_into() -> None:
    names = dict(attributes_of(Wrapped(Names(["a"]))))
    assert names["dataset.dataset.names"] == ["a"]


def touched(folder: Path, value: object) -> int:
    note_touched("dataset.names", value, EventFile(str(folder)))
    note = [wire.decode(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()][-1]
    assert isinstance(note, TouchedAttribute)
    assert not note.error
    return note.private_bytes - note.untouched_bytes


def test_going_through_strings_makes_their_memory_private_and_an_array_does_not(tmp_path: Path) -> None:
    names = [f"item-{number:09d}" for number in range(300_000)]
    grown = touched(tmp_path, names)
    assert 12e6 < grown < 40e6, "58 bytes each, and the list"
    assert touched(tmp_path, np.array(names)) < 2e6
