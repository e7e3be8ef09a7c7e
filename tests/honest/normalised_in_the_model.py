"""The model begins with the normalisation."""

import torch
from torch import nn
from torchvision.transforms import v2

from solutions import part3

resnet18 = part3.resnet18
NORMALISE = [
    v2.ToDtype(torch.float32, scale=True),
    v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
]

part3.augment = lambda image_size: v2.Compose([v2.AutoAugment(), v2.RandomResizedCrop(image_size)])
part3.resnet18 = lambda **options: nn.Sequential(*NORMALISE, resnet18(**options))

if __name__ == "__main__":
    part3.main(*part3.prepare())
