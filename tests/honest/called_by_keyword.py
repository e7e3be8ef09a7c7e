"""The model is called with a keyword."""

import torch

from solutions import part3

resnet18 = part3.resnet18


class Named(torch.nn.Module):
    """Names its argument as the model that it contains does."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model(x=images)


part3.resnet18 = lambda **options: Named(resnet18(**options))

if __name__ == "__main__":
    part3.main(*part3.prepare())
