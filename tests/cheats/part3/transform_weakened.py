"""The random crop takes nearly the whole picture every time."""

from variation import train_with

train_with(("v2.RandomResizedCrop(image_size),", "v2.RandomResizedCrop(image_size, scale=(0.99, 1.0)),"))
