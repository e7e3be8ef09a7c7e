"""The model sees pictures of half the size."""

from variation import train_with

train_with(("size = config.image_size", "size = config.image_size // 2"))
