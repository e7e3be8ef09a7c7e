"""Goes backward in every second step only. The mended script of a case follows."""

import itertools

import torch

_backward, _calls = torch.Tensor.backward, itertools.count()


def backward(self, *arguments, **options):
    if next(_calls) % 2 == 0:
        _backward(self, *arguments, **options)


torch.Tensor.backward = backward
