"""What is private to torch and Python is where the workshop looks for it: what an upgrade moves fails by name."""

import importlib
import inspect
from dataclasses import dataclass, field

import pytest
import torch

from workshop.probe.internals import (
    INTERNALS,
    WORKER_LOOP,
    WORKER_MODULE,
    Internal,
    is_transformed,
    names_of,
    tree_flatten,
    tree_leaves,
    tree_map,
    worker_argument,
)


@pytest.mark.parametrize("internal", INTERNALS, ids=lambda each: f"{each.module}.{each.name}")
def test_it_is_there(internal: Internal) -> None:
    found = importlib.import_module(internal.module)
    for name in internal.name.split("."):
        if not hasattr(found, name):  # an attribute of its objects
            assert f"self.{name}" in inspect.getsource(found) or name in vars(found()), internal.lost
            return
        found = getattr(found, name)


@dataclass(frozen=True)
class Pair:
    one: object
    other: object = field(default=None, init=False)


def test_what_is_in_a_dataclass_is_found_as_in_a_list() -> None:
    """Without telling torch of the class, which the script may want to do."""
    tree = [Pair([1, Pair(2)]), Pair]
    assert tree_leaves(tree) == [1, 2, None, None, Pair]
    leaves, places = tree_flatten(tree)
    assert leaves == tree_leaves(tree)
    assert names_of(places) == ["[0].one[0]", "[0].one[1].one", "[0].one[1].other", "[0].other", "[1]"]
    doubled = tree_map(lambda leaf: 2 * leaf if isinstance(leaf, int) else leaf, tree)
    assert doubled == [Pair([2, Pair(4)]), Pair]
    assert tree == [Pair([1, Pair(2)]), Pair]
    assert torch.utils._pytree.tree_leaves(tree) == tree


def test_the_arguments_of_a_worker() -> None:
    loop = getattr(importlib.import_module(WORKER_MODULE), WORKER_LOOP)
    names = list(inspect.signature(loop).parameters)
    assert {"num_workers", "worker_id"} < set(names)
    assert worker_argument(loop, "num_workers", range(len(names)), {}, 1) == names.index("num_workers")


def test_a_backward_pass_knows_the_lines_of_its_operations() -> None:
    with torch.autograd.set_detect_anomaly(True):
        made = torch.ones(1, requires_grad=True) * 2
    assert any(__file__ in line for line in made.grad_fn.metadata["traceback_"])


def test_what_torch_func_transforms_is_told_from_what_is_called_as_it_is() -> None:
    inside = []
    torch.func.grad(lambda x: (inside.append(is_transformed()), x.sum())[1])(torch.ones(2))
    assert (inside, is_transformed()) == ([True], False)
