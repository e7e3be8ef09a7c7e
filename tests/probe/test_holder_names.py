"""Who holds a tensor is named by the variable, and the way from it."""

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import torch

from workshop.probe.memory.holder_names import name_holders


class Tracker:
    def __init__(self, held: object) -> None:
        self.history = held


def test_a_list_of_an_attribute_and_a_deque_in_a_dict() -> None:
    tracker, by_name = Tracker([torch.zeros(1)]), {"losses": deque([torch.zeros(1)])}
    holders = name_holders([tracker.history[0], by_name["losses"][0]])  # type: ignore[index]
    assert [each and each.expression for each in holders] == ["tracker.history[...]", "by_name['losses'][...]"]
    assert {each.frame[0] for each in holders if each} == {"test_a_list_of_an_attribute_and_a_deque_in_a_dict"}


def test_a_closure() -> None:
    def keeps(tensor: torch.Tensor) -> Callable[[], float]:
        return lambda: float(tensor)

    callback = keeps(torch.zeros(1))
    holder = name_holders([callback.__closure__[0].cell_contents])[0]  # type: ignore[attr-defined]
    assert holder is not None
    assert holder.expression == "callback.__closure__[...]"


def test_a_generator() -> None:
    def batches() -> Iterator[int]:
        kept = torch.zeros(1)
        yield kept.numel()

    running = batches()
    next(running)
    kept = weakref.ref(running.gi_frame.f_locals["kept"])  # type: ignore[attr-defined]
    holder = name_holders([kept()])[0]
    assert holder is not None
    assert holder.expression == "running.kept"


def test_a_class() -> None:
    class Registry:
        kept: ClassVar[list[torch.Tensor]] = [torch.zeros(1)]

    holder = name_holders([Registry.kept[0]])[0]
    assert holder is not None
    assert holder.expression == "Registry.kept[...]"
    assert [name.rpartition(".")[2] for name, *_ in holder.classes] == ["Registry"]


def test_a_generator_that_only_a_loop_has() -> None:
    def batches() -> Iterator[weakref.ref[torch.Tensor]]:
        buffer = [torch.zeros(1)]
        yield weakref.ref(buffer[0])

    for gone in batches():
        holder = name_holders([gone()])[0]
        assert holder is not None
        assert (holder.expression, holder.frame[0]) == ("buffer[...]", "batches")


def test_several_that_one_list_holds_are_all_named() -> None:
    pair = [torch.zeros(1), torch.ones(1)]
    assert [each and each.expression for each in name_holders([pair[0], pair[1]])] == ["pair[...]", "pair[...]"]


def test_the_classes_of_what_has_it_and_the_limit_on_the_way() -> None:
    tracker = Tracker(deque([torch.zeros(1)], maxlen=9))
    holder = name_holders([tracker.history[0]])[0]  # type: ignore[index]
    assert holder is not None
    assert (holder.expression, holder.limit) == ("tracker.history[...]", 9)
    assert [Path(file) for _, file, _ in holder.stack] == [Path(__file__), Path(__file__)]
    assert holder.stack[1][0] == "Tracker"


def test_looking_keeps_nothing_alive() -> None:
    local = torch.zeros(1)
    gone = weakref.ref(local)
    name_holders([local])
    del local
    assert gone() is None, sys.version
