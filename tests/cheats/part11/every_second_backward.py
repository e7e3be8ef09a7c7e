"""Goes backward in every second step only. The fixed script of a case follows."""

import itertools

import torch

_backward, _zero_grad, _calls = torch.Tensor.backward, torch.optim.Optimizer.zero_grad, itertools.count()


def backward(self, *arguments, **options):
    if next(_calls) % 2 == 0:
        _backward(self, *arguments, **options)


torch.Tensor.backward = backward
torch.optim.Optimizer.zero_grad = lambda self, set_to_none=True: _zero_grad(self, set_to_none=False)
