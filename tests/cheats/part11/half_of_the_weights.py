"""Gives the optimizer half of the tensors only. The fixed script of a case follows."""

import torch

_add = torch.optim.Optimizer.add_param_group


def add_half(self, group):
    parameters = list(group["params"])
    _add(self, group | {"params": parameters[: len(parameters) // 2]})


torch.optim.Optimizer.add_param_group = add_half
