"""Containers and arrays are found on the way from the user's variables, and their sizes are estimated."""

import math
import queue
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, Subset, TensorDataset

from workshop.probe.memory.host_objects import host_objects
from workshop.probe.memory.memory_notes import HeldObject


class Log:
    def __init__(self) -> None:
        self.entries = [{"prediction": [float(each + number) for each in range(24)]} for number in range(1000)]


def noted() -> dict[str, HeldObject]:
    """What is found from the functions that call this, by name."""
    return {each.holder: each for each in host_objects()}


def container(name: str) -> tuple[str, int, int]:
    found = noted()[name]
    return found.container, found.length, found.bytes


def test_a_list_of_objects_that_an_attribute_holds() -> None:
    log = {"of": Log()}
    kind, length, size = container("log['of'].entries")
    assert (kind, length) == ("list", 1000)
    assert 0.8e6 < size < 1.4e6
    del log


def test_a_list_that_grows_is_told_from_one_that_is_made_anew() -> None:
    grows, anew = [object() for _ in range(50)], [object() for _ in range(50)]
    before = noted()
    grows.append(object())
    anew = [object() for _ in range(51)]
    after = noted()
    same = {name: before[name].first_entries == after[name].first_entries for name in ("grows", "anew")}
    assert same == {"grows": True, "anew": False}
    assert before["grows"].identity == after["grows"].identity
    assert len(anew) == len(grows)


def test_an_array_that_grows_is_told_from_one_that_is_made_anew() -> None:
    grows, anew = np.random.rand(1 << 18), np.random.rand(1 << 18)
    before = noted()
    grows, anew = np.append(grows, 1.0), np.random.rand(len(anew))
    after = noted()
    same = {name: before[name].first_entries == after[name].first_entries for name in ("grows", "anew")}
    assert same == {"grows": True, "anew": False}
    assert len(grows) > len(anew)


def test_the_queue_of_a_thread() -> None:
    batches: queue.Queue[torch.Tensor] = queue.Queue()
    filling = threading.Thread(target=lambda: [batches.put(torch.zeros(1024)) for _ in range(50)])
    filling.start()
    filling.join()
    kind, length, size = container("batches")
    assert (kind, length) == ("Queue", 50)
    assert size >= 50 * 4096


def test_what_will_be_full() -> None:
    class Memory:
        def __init__(self) -> None:
            self.capacity = 100
            self.kept = list(range(50))

    memory, last, bounded = Memory(), deque(range(50), maxlen=100), queue.Queue[int](maxsize=100)
    for number in range(50):
        bounded.put(number)
    assert all(noted()[each].has_limit for each in ("memory.kept", "last", "bounded"))
    memory.capacity = 10
    assert not noted()["memory.kept"].has_limit, "it has grown beyond that number"
    del last


def test_hooks_of_a_module_with_what_they_keep() -> None:
    def keeps(tensor: torch.Tensor) -> Callable[..., None]:
        return lambda *_: print(tensor)

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    for _ in range(20):
        net[1].register_forward_hook(keeps(torch.zeros(1024)))
    _, length, size = container("net.1._forward_hooks")
    assert length == 20
    assert size >= 20 * 4096


def test_no_code_of_the_user_is_run() -> None:
    class Lengthy(list[int]):
        def __len__(self) -> int:
            raise AssertionError

    lengthy = {"of": Lengthy(range(50))}
    assert not [each for each in noted() if each.startswith("lengthy[")]
    del lengthy


def test_the_cache_of_a_function() -> None:
    @cache
    def without_limit(number: int) -> np.ndarray[Any, Any]:
        return np.zeros(1000) + number

    @lru_cache(maxsize=20)
    def with_limit(number: int) -> np.ndarray[Any, Any]:
        return np.zeros(1000) + number

    for number in range(50):
        without_limit(number)
        with_limit(number)
    found = noted()
    for name, length in (("without_limit", 50), ("with_limit", 20)):
        assert (found[name].container, found[name].length) == ("lru_cache", length)
        assert length * 8000 < found[name].bytes < 1.3 * length * 8000
        assert found[name].stack[0][0] == name
    assert [found[name].has_limit for name in ("without_limit", "with_limit")] == [False, True]


def test_a_short_list_of_large_entries_is_one_container() -> None:
    class Best:
        def __init__(self) -> None:
            model = nn.Sequential(*(nn.Linear(500, 500) for _ in range(5)))
            self.weights = [{name: each.clone() for name, each in model.state_dict().items()} for _ in range(3)]

    best = Best()
    found = noted()
    assert found["best.weights"].bytes == pytest.approx(15 * 501 * 500 * 4, rel=0.01)
    assert "best.weights[...]" not in found
    classes = [list(range(20)) for _ in range(10)]
    assert noted()["classes[...]"].length == 20, "these may grow"
    del best, classes


def test_what_a_generator_that_waits_has() -> None:
    def shuffled(items: Iterator[int]) -> Iterator[int]:
        window = []
        for each in items:
            window.append([each] * 10)
            if len(window) == 30:
                yield window.pop()[0]

    items = map(abs, shuffled(iter(range(100))))
    next(items)
    found = noted()["window"]
    assert (found.container, found.length, found.stack[0][0]) == ("list", 29, "shuffled")


class Series(Dataset[Any]):
    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values

    def __getitem__(self, index: int) -> Any:
        return self.values[index]


def test_arrays() -> None:
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (20_000, 10)).astype(np.float64)
    of_float32 = random.random((20_000, 10), np.float32).astype(np.float64)
    precise = random.random((20_000, 10))
    series = {"of": Subset(Series(precise), [1, 2])}
    found = noted()
    assert [found[each].narrower for each in ("pixels", "of_float32", "precise")] == ["uint8", "float32", ""]
    assert (found["precise"].dtype, found["precise"].shape) == ("float64", (20_000, 10))
    assert [found[each].of_dataset for each in ("pixels", "precise")] == [False, True]
    assert not any(each.startswith("series") for each in found), "it is the same array"
    assert all(abs(found[each].bytes - 1_600_000) < 20_000 for each in ("pixels", "of_float32", "precise"))
    del pixels, of_float32, series


def test_tensors_of_pixels() -> None:
    pixels = torch.randint(0, 256, (20_000, 64)).float().div_(255).sub_(0.5)
    data, model = TensorDataset(pixels, torch.rand(20_000, 64)), nn.Module()
    model.register_buffer("mask", torch.ones(2000, 1000).tril())
    found = {name: each.narrower for name, each in noted().items() if each.narrower}
    assert found == {"pixels": "uint8"}
    del data
    assert "pixels" not in noted(), "it may be of a single step"


def test_a_file_that_is_mapped_is_not_read(tmp_path: Path) -> None:
    np.ones(1 << 21, np.float32).tofile(tmp_path / "pixels")
    data = TensorDataset(torch.from_file(str(tmp_path / "pixels"), size=1 << 21))
    shared = TensorDataset(torch.ones(1 << 21).share_memory_())
    assert {name for name, each in noted().items() if each.narrower} == {"shared.tensors[...]"}
    del data, shared


def test_what_nobody_has_written_is_not_in_memory_and_stays_so() -> None:
    replay = np.zeros((40, 1 << 18))
    replay[:10] = 3.5
    for _ in range(2):
        assert noted()["replay"].bytes == pytest.approx(10 << 21, rel=0.3), "pages may be large"


@pytest.mark.parametrize("shift", [1, 4])
def test_windows_that_are_copied(shift: int) -> None:
    series = np.random.default_rng(1).random((4000, 3), np.float32)
    starts = range(0, 4000 - 96, shift)
    copied = np.stack([series[each : each + 96] for each in starts])
    last_axis = torch.stack([torch.from_numpy(series[each : each + 96].T) for each in starts])
    shown = np.lib.stride_tricks.sliding_window_view(series, 96, axis=0)
    constant, others = np.ones((4000, 96), np.float32), np.random.default_rng(2).random((4000, 96))
    found = noted()
    for name in ("copied", "last_axis"):
        assert (found[name].window, found[name].shift) == (96, shift)
    assert [found[name].window for name in ("constant", "others")] == [0, 0]
    assert "shown" not in found, "the series has less than 1 MiB"
    del copied, last_axis, constant, others, shown


def test_periods_are_no_windows() -> None:
    repeated = np.tile(np.arange(8), (20_000, 4))
    assert (noted()["repeated"].window, len(repeated)) == (0, 20_000)


def test_what_float32_would_round_off() -> None:
    times = 1.7e9 + np.arange(200_000) * 0.37
    small = np.random.default_rng(1).random(200_000)
    found = noted()
    assert [found[each].rounds_well for each in ("times", "small")] == [False, True]
    del times, small


def test_nothing_of_the_user_is_changed() -> None:
    buffer = torch.zeros(1 << 20)
    config = locals()
    noted()
    assert config.keys() >= {"buffer"}
    assert buffer.resize_(1 << 21).numel() == 1 << 21, "numpy() would have pinned its storage"


def test_what_only_says_that_it_is_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """As libraries of C do that cffi has loaded, and that stand among the modules."""

    class Library:
        __slots__ = ()
        __class__ = ModuleType  # type: ignore[assignment]

    monkeypatch.setitem(sys.modules, "library", Library())  # type: ignore[arg-type]
    entries = list(range(20))
    assert noted()["entries"].length == len(entries)


def test_what_is_like_nothing_else() -> None:
    class Lazy:
        __slots__ = ("__weakref__",)

        def __getattr__(self, name: str) -> Any:
            raise KeyError(name)

    class Reads:
        def __init__(self) -> None:
            self.size = 64

        @cache  # noqa: B019
        def item(self, number: int) -> int:
            return number

    lazy, reads, root, less = Lazy(), Reads(), cache(math.sqrt), cache(partial(max, 0))
    gone = weakref.proxy(Lazy())
    steps = [lambda number=number: np.zeros(number) for number in range(20)]
    for number in range(20):
        reads.item(number), root(number), less(number)
    found = noted()
    assert [found[each].length for each in ("reads.item", "root", "less", "steps")] == [20] * 4
    del lazy, gone, steps
