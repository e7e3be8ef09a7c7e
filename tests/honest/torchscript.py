"""The model is compiled by torch.jit.script."""

import torch

from solutions import part3

resnet18 = part3.resnet18
part3.resnet18 = lambda **options: torch.jit.script(resnet18(**options))

if __name__ == "__main__":
    part3.main(*part3.prepare())
