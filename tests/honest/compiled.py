"""torch.compile."""

import torch

from solutions import part3

resnet18 = part3.resnet18
part3.resnet18 = lambda **options: torch.compile(resnet18(**options))

if __name__ == "__main__":
    part3.main(*part3.prepare())
