"""What a forked worker would copy is counted: Python objects, and not what an array contains."""

import random
from collections import namedtuple

import numpy as np
import pytest
import torch

from workshop.probe.memory.object_sizes import count_objects, describe_container


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
