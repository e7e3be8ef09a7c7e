"""An average of the model's parameters is found among all objects, whatever these are."""

import copy
import weakref

import torch
from torch import nn

from workshop.probe.averaged_copies import AveragedCopies


def test_a_copy_that_changes_is_found_beside_objects_that_cannot_be_asked_for_their_class() -> None:
    gone = nn.Linear(3, 2)
    proxies = [weakref.proxy(gone)]
    del gone
    model = nn.Linear(3, 2)
    average, kept = copy.deepcopy(model), copy.deepcopy(model)
    copies = AveragedCopies()
    copies.look(list(model.parameters()), [])
    copies.take()
    assert copies.found == []
    with torch.no_grad():
        average.weight.add_(1.0)
    copies.take()
    assert copies.found == [average]
    assert kept is not average
    assert len(proxies) == 1
