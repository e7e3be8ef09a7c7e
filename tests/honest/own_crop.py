"""A random crop of one's own, made with the functions of torchvision."""

import torch
from torch import nn
from torchvision.transforms import v2

from solutions import part3

get_box = v2.RandomResizedCrop.make_params


class OwnCrop(nn.Module):
    """Crops as `RandomResizedCrop` does."""

    def __init__(self, size):
        super().__init__()
        self.size = [size, size]
        self.crop = v2.RandomResizedCrop(size)

    def forward(self, image):
        return v2.functional.resized_crop(image, **get_box(self.crop, [image]), size=self.size)


def augment(image_size):
    return v2.Compose(
        [
            v2.AutoAugment(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
            OwnCrop(image_size),
        ]
    )


part3.augment = augment

if __name__ == "__main__":
    part3.main(*part3.prepare())
