"""Computes in bfloat16. The fixed script of a case follows."""

import torch

torch.autocast("cpu", torch.bfloat16).__enter__()
