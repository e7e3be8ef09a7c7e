"""Who holds a tensor is named by the variable, and the way from it."""

import sys
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import torch
from torch.utils.data import Subset

from workshop.probe.memory.variables import Variable, attributes_of, tensor_variables


def holders(*identities: int) -> list[Variable]:
    """Who holds each of some tensors; all have a holder."""
    found = tensor_variables()
    return [found[each] for each in identities]


class Tracker:
    def __init__(self, held: object) -> None:
        self.history = held


def test_a_list_of_an_attribute_and_a_deque_in_a_dict() -> None:
    tracker, by_name = Tracker([torch.zeros(1)]), {"losses": deque([torch.zeros(1)])}
    held = holders(id(tracker.history[0]), id(by_name["losses"][0]))  # type: ignore[index]
    assert [each.name for each in held] == ["tracker.history[...]", "by_name['losses'][...]"]
    assert {each.frame[0] for each in held} == {"test_a_list_of_an_attribute_and_a_deque_in_a_dict"}


def test_a_closure() -> None:
    callback = (lambda tensor: lambda: float(tensor))(torch.zeros(1))
    [holder] = holders(id(callback.__closure__[0].cell_contents))  # type: ignore[index]
    assert holder.name == "callback.__closure__[...]"


def test_a_generator() -> None:
    def batches() -> Iterator[int]:
        kept = torch.zeros(1)
        yield kept.numel()

    running = batches()
    next(running)
    kept = weakref.ref(running.gi_frame.f_locals["kept"])  # type: ignore[attr-defined]
    [holder] = holders(id(kept()))
    assert holder.name == "running.kept"


def test_a_class() -> None:
    class Registry:
        kept: ClassVar[list[torch.Tensor]] = [torch.zeros(1)]

    [holder] = holders(id(Registry.kept[0]))
    assert holder.name == "Registry.kept[...]"
    assert [name.rpartition(".")[2] for name, *_ in holder.stack[1:]] == ["Registry"]


def test_a_generator_that_only_a_loop_has() -> None:
    def batches() -> Iterator[weakref.ref[torch.Tensor]]:
        buffer = [torch.zeros(1)]
        yield weakref.ref(buffer[0])

    for gone in batches():
        [holder] = holders(id(gone()))
        assert (holder.name, holder.frame[0]) == ("buffer[...]", "batches")


def test_several_that_one_list_holds_are_all_named() -> None:
    pair = [torch.zeros(1), torch.ones(1)]
    assert [each.name for each in holders(*map(id, pair))] == ["pair[...]", "pair[...]"]


def test_the_classes_of_what_has_it_and_the_limit_on_the_way() -> None:
    tracker = Tracker(deque([torch.zeros(1)], maxlen=9))
    [holder] = holders(id(tracker.history[0]))  # type: ignore[index]
    assert (holder.name, holder.limit) == ("tracker.history[...]", 9)
    assert [Path(file) for _, file, _ in holder.stack] == [Path(__file__), Path(__file__)]
    assert holder.stack[1][0] == "Tracker"


def test_looking_keeps_nothing_alive() -> None:
    local = torch.zeros(1)
    gone = weakref.ref(local)
    assert holders(id(local))[0].name == "local"
    del local
    assert gone() is None, sys.version


def test_what_a_dataset_wraps_is_looked_into() -> None:
    names = dict(attributes_of(Subset(Tracker(["a"]), [])))
    assert names["dataset.dataset.history"] == ["a"]


def test_a_long_container_is_gone_through_only_for_tensors() -> None:
    """What else there is in it may be memory that workers share."""
    kept = {number: {"at": number, "loss": torch.zeros(1)} for number in range(1000)}
    rows: list[list[object]] = [[number] for number in range(1000)]
    rows[400] = [torch.zeros(1)]
    found = tensor_variables()
    assert found[id(kept[400]["loss"])].name == "kept[400]['loss']"
    assert id(rows[400][0]) not in found
