"""All objects of a class are found, and no thread of the script is harmed by that."""

import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from workshop.probe.garbage import all_of


@pytest.fixture
def often_switching() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def faults_of_a_thread_that_makes_tuples(meanwhile: Callable[[], object]) -> list[BaseException]:
    """Let another thread make tuples, item by item, and return what fails in it."""
    faults, is_over = list[BaseException](), threading.Event()

    def make() -> None:
        while not is_over.is_set():
            try:
                tuple(str(number) for number in range(200))
            except SystemError as error:
                faults.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    for _ in range(60):
        meanwhile()
    is_over.set()
    thread.join()
    return faults


@pytest.mark.usefixtures("often_switching")
def test_a_tuple_that_a_thread_is_making_is_left_alone() -> None:
    assert faults_of_a_thread_that_makes_tuples(lambda: all_of(nn.Module)) == []


def test_objects_of_a_class_and_of_those_below_it_are_found() -> None:
    class Own(nn.Linear):
        pass

    one, other = nn.Linear(2, 2), Own(2, 2)
    gone = nn.Linear(1, 1)
    proxy = weakref.proxy(gone)
    del gone
    found = all_of(nn.Linear, torch.optim.SGD)
    assert any(each is one for each in found)
    assert any(each is other for each in found)
    assert all(type(each) is not type(proxy) for each in found)
    assert not any(isinstance(each, nn.Sequential) for each in found)
