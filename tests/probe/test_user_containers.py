"""Containers are found on the way from the user's variables, and their sizes are estimated."""

import queue
import threading
from collections import deque
from collections.abc import Callable

import numpy as np
import torch

from workshop.probe.memory.user_containers import size_of, user_containers


class Log:
    def __init__(self) -> None:
        self.entries = [{"prediction": [float(each + number) for each in range(24)]} for number in range(1000)]


def noted() -> dict[str, tuple[str, int, int]]:
    """What is found from the functions that call this, by name."""
    return {place.name: (container, length, size) for place, container, length, size in user_containers()}


def test_a_list_of_objects_that_an_attribute_holds() -> None:
    log = {"of": Log()}
    container, length, size = noted()["log['of'].entries"]
    assert (container, length) == ("list", 1000)
    assert 0.8e6 < size < 1.4e6
    del log


def test_the_queue_of_a_thread() -> None:
    batches: queue.Queue[torch.Tensor] = queue.Queue()
    filling = threading.Thread(target=lambda: [batches.put(torch.zeros(1024)) for _ in range(50)])
    filling.start()
    filling.join()
    container, length, size = noted()["batches"]
    assert (container, length) == ("Queue", 50)
    assert size >= 50 * 4096


def test_what_will_be_full_is_left_out() -> None:
    class Memory:
        def __init__(self) -> None:
            self.capacity = 100
            self.kept = list(range(50))

    memory, last, bounded = Memory(), deque(range(50), maxlen=100), queue.Queue[int](maxsize=100)
    for number in range(50):
        bounded.put(number)
    assert not {"memory.kept", "last", "bounded"} & noted().keys()
    memory.capacity = 10
    assert "memory.kept" in noted(), "it has grown beyond that number"
    del last


def test_hooks_of_a_module_with_what_they_keep() -> None:
    def keeps(tensor: torch.Tensor) -> Callable[..., None]:
        return lambda *_: print(tensor)

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    for _ in range(20):
        net[1].register_forward_hook(keeps(torch.zeros(1024)))
    _, length, size = noted()["net.1._forward_hooks"]
    assert length == 20
    assert size >= 20 * 4096


def test_no_code_of_the_user_is_run() -> None:
    class Lengthy(list[int]):
        def __len__(self) -> int:
            raise AssertionError

    lengthy = {"of": Lengthy(range(50))}
    assert not [each for each in noted() if each.startswith("lengthy[")]
    del lengthy


def test_sizes() -> None:
    assert size_of([np.zeros(1000) for _ in range(100)]) > 800_000
    assert size_of([torch.zeros(1000) for _ in range(100)]) >= 400_000
    model = torch.zeros(1_000_000)
    assert size_of([{"of": model, "at": number} for number in range(1000)]) < 400_000, "all of them know the same"
    assert size_of([1, 2] * 10_000) < 200_000, "the same few objects are there once"
